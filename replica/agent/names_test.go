package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// page has the containers of some IDs.
func page(ids ...string) *metric.UsagePage {
	p := &metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{}, Unnamed: map[string]metric.UsageReading{}}
	for i, id := range ids {
		p.Unnamed[id] = metric.UsageReading{Memory: uint64(i) + 1}
	}
	return p
}

func webNamed(id, pod string) []*agentwire.ContainerName {
	return []*agentwire.ContainerName{{Id: id, Namespace: "shop", Pod: pod, Container: "web"}}
}

// Of two containers of one name, the one counts that was named last. A name is forgotten with its container; a name
// that nobody asked for, or of no pod, is none.
func TestNames(t *testing.T) {
	n, now := newNames(), time.Unix(1_790_000_000, 0)
	web := metric.Container{Namespace: "shop", Pod: "web-0", Name: "web"}
	want := func(memory uint64, ids ...string) {
		t.Helper()
		p := page(ids...)
		if n.add(p, now); p.Readings[web].Memory != memory || len(p.Readings) > 1 {
			t.Errorf("the readings are %v, want %d", p.Readings, memory)
		}
	}
	n.take(webNamed("a", "web-0"))
	want(0, "a", "b")
	n.take(webNamed("b", ""))
	n.take(webNamed("a", "web-0"))
	want(1, "a", "b")
	n.take(webNamed("b", "web-0"))
	want(2, "a", "b")
	want(1, "b", "a")
	want(1, "a")
	want(1, "a", "b") // b is another one, which has no name yet
	if len(n.known) != 1 || len(n.asks) != 1 {
		t.Errorf("known are %v, and asked for %v", n.known, n.asks)
	}
}

// A name is asked for at once, then less and less often: a sandbox has none.
func TestNamesAreAskedFor(t *testing.T) {
	n, now := newNames(), time.Unix(1_790_000_000, 0)
	var asked []int
	for second := range 300 {
		n.add(page("sandbox"), now)
		if slices.Equal(n.due(now), []string{"sandbox"}) {
			asked = append(asked, second)
		}
		now = now.Add(time.Second)
	}
	if want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}; !slices.Equal(asked, want) {
		t.Errorf("asked at the seconds %v, want %v", asked, want)
	}
	if n.add(page(), now); len(n.asks) != 0 {
		t.Errorf("a container that has ended is asked for: %v", n.asks)
	}
}
