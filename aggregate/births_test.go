package aggregate

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

var web1 = metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}

// births are the births of hits on web-1: labels and age in seconds, the oldest first.
func (f *fixture) births() (all []string) {
	births := f.AppendBirths(nil, web1, "hits")
	slices.SortFunc(births, func(a, b metric.Birth) int { return int(a.At - b.At) })
	for _, one := range births {
		all = append(all, fmt.Sprint(one.Labels.Packed(), " ", time.Since(time.Unix(0, one.At)).Round(time.Second)))
	}
	return all
}

// A restarted process dates births of before the restart as the others do: by its newest clock. An
// outage makes them younger by its length.
func TestBirthsHaveDates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		time.Sleep(time.Minute)
		f.push("hits:1|c|#ns:shop,pod:web-1,v:1")
		time.Sleep(20 * time.Second)
		f.push("hits:1|c|#ns:shop,pod:web-1,v:2", "hits:1|c|#ns:shop,pod:web-2,v:3")
		time.Sleep(10 * time.Second)
		want := []string{"\x01v\x011 30s", "\x01v\x012 10s"}
		if got := f.births(); !slices.Equal(got, want) {
			t.Errorf("births: %q, want %q", got, want)
		}
		s := newSaved()
		s.flush(f.Table, each)
		time.Sleep(time.Hour)
		back := s.restore(t)
		if got := back.births(); !slices.Equal(got, want) {
			t.Errorf("after a restart: %q, want %q", got, want)
		}
		if n := back.ShedSeries(web1, "hits", []metric.Labels{metric.NewLabels([]metric.Label{{Key: "v", Value: "2"}})}); n != 1 {
			t.Errorf("%d series were evicted, want 1", n)
		}
		if got := back.births(); !slices.Equal(got, want[:1]) {
			t.Errorf("births: %q, want %q", got, want[:1])
		}
	})
}

// A birth that a dated sample moves back is saved again.
func TestBackdatedBirthIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		time.Sleep(time.Minute)
		f.push("hits:1|c|#ns:shop,pod:web-1")
		s := newSaved()
		s.flush(f.Table, each)
		time.Sleep(10 * time.Second)
		f.push(fmt.Sprintf("hits:1|c|#ns:shop,pod:web-1|T%d", time.Now().Add(-30*time.Second).Unix()))
		s.flush(f.Table, never)
		s.uptime = window.Uptime{}
		if got, want := s.restore(t).births(), []string{" 30s"}; !slices.Equal(got, want) {
			t.Errorf("births: %q, want %q", got, want)
		}
	})
}

// MaxSeries and MaxBytes include the shadows.
func TestShadowsCountForTheBounds(t *testing.T) {
	f := newFixture(t)
	series, bytes := 0, int64(0)
	f.CountAlso(func() (int, int64) { return series, bytes })
	f.push("a:1|c")
	series = f.config.MaxSeries - 1
	f.refuses("b:1|c", metric.OverLimit)
	series, bytes = 0, f.config.MaxBytes
	f.refuses("c:1|c", metric.OverLimit)
	bytes = 0
	f.push("d:1|c")
}

// A shadow dates births as their origin does, whatever the difference of the machines' clocks.
func TestAShadowDatesBirthsAsItsOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := NewShadow(f.config, slog.New(slog.DiscardHandler))
		if err := s.Begin(f.AppendClock(nil)); err != nil {
			t.Fatal(err)
		}
		publish := func() {
			if err := s.ApplyDelta(0, f.AppendDelta(nil, 0)); err != nil {
				t.Fatal(err)
			}
			if err := s.Advance(f.AppendClock(nil), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		check := func(when string) {
			t.Helper()
			ours, theirs := f.AppendBirths(nil, web1, "hits"), s.AppendBirths(nil, web1, "hits")
			if len(ours) == 0 || !slices.Equal(ours, theirs) {
				t.Errorf("%s: the origin has %v, the shadow %v", when, ours, theirs)
			}
		}
		time.Sleep(1234 * time.Millisecond)
		f.push("hits:1|c|#ns:shop,pod:web-1")
		publish()
		check("at the birth")
		time.Sleep(10 * time.Second)
		f.push(fmt.Sprintf("hits:1|c|#ns:shop,pod:web-1|T%d", time.Now().Add(-30*time.Second).Unix()))
		publish()
		check("after a dated sample")
		if ours, theirs := f.Idle(web1, "hits"), s.Idle(web1, "hits"); ours != theirs {
			t.Errorf("idle for %s, the shadow says %s", ours, theirs)
		}
	})
}
