package usage

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Points are those of the windows: of a node or of pods, in a time, joined by steps, the newest of each container. A
// joined point is the mean by time.
func TestPoints(t *testing.T) {
	began := time.Unix(1_790_000_000, 0) // a multiple of ten minutes is 1_789_999_800
	tracker := NewTracker()
	for _, name := range []metric.Container{{}, web, {Namespace: "shop", Pod: "web-0", Name: "proxy"}, {Namespace: "shop", Pod: "web-1", Name: "web"}, {Namespace: "mail", Pod: "web-0", Name: "web"}} {
		c := new(tracked)
		tracker.containers[name] = c
		for i := range 30 {
			p := Point{began.Add(time.Duration(10*i) * time.Second), began.Add(time.Duration(10*i+10) * time.Second), float64(i)}
			c.cpu.Add(p)
			if i != 3 { // a time of which the memory is not known
				p.Value *= 100
				c.memory.Add(p)
			}
		}
	}
	said := func(q PointsQuery) (text string) {
		t.Helper()
		if q.Until.IsZero() {
			q.Until = began.Add(time.Hour)
		}
		if q.Step == 0 {
			q.Step = 10 * time.Second
		}
		all, err := tracker.Points(&q)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(all, func(a, b ContainerPoints) int { return compare(a.Container, b.Container) })
		for _, of := range all {
			text += fmt.Sprintf("%s/%s/%s", of.Container.Namespace, of.Container.Pod, of.Container.Name)
			for _, p := range of.Points {
				text += fmt.Sprintf(" %v+%v:%v,%v", p.End.Sub(began)-p.Length, p.Length, p.CPU, p.Memory)
			}
			text += ";"
		}
		return text
	}
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	for want, q := range map[string]PointsQuery{
		"// 4m50s+10s:29,2900;": {Node: true, Count: 1},
		"mail/web-0/web 4m50s+10s:29,2900;shop/web-0/proxy 4m50s+10s:29,2900;shop/web-0/web 4m50s+10s:29,2900;shop/web-1/web 4m50s+10s:29,2900;": {Count: 1},
		"shop/web-1/web 4m40s+10s:28,2800 4m50s+10s:29,2900;":       {Namespace: "shop", Pod: "web-1", Count: 2},
		"shop/web-1/web 10s+10s:1,100 20s+10s:2,200 40s+10s:4,400;": {Namespace: "shop", Pod: "web-1", After: at(10), Until: at(59)},
		// The minutes of Unix time are at 40 s, and each begins with the point that ends there plus ten seconds.
		"shop/web-1/web 0s+40s:1.5,100 40s+1m0s:6.5,650 1m40s+20s:10.5,1050;": {Namespace: "shop", Pod: "web-1", Until: at(120), Step: time.Minute},
		"": {Namespace: "shop", Pod: "web-2"},
	} {
		if got := said(q); got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", q, got, want)
		}
	}
}

// An answer is bounded.
func TestTooManyPoints(t *testing.T) {
	tracker, now := NewTracker(), time.Unix(1_790_000_000, 0)
	c := new(tracked)
	for i := range 300 {
		p := Point{now.Add(time.Duration(10*i) * time.Second), now.Add(time.Duration(10*i+10) * time.Second), 1}
		c.cpu.Add(p)
		c.memory.Add(p)
	}
	for i := range MaxPoints/300 + 1 {
		tracker.containers[metric.Container{Namespace: "shop", Pod: fmt.Sprint(i), Name: "web"}] = c
	}
	q := PointsQuery{Until: now.Add(time.Hour), Step: 10 * time.Second}
	if _, err := tracker.Points(&q); !errors.Is(err, ErrTooManyPoints) || !errors.Is(err, metric.ErrInvalidQuery) {
		t.Errorf("too many points: %v", err)
	}
	q.Count = 100
	if all, err := tracker.Points(&q); err != nil || len(all) != MaxPoints/300+1 {
		t.Errorf("%d containers: %v", len(all), err)
	}
}
