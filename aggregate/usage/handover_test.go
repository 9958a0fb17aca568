package usage

import (
	"reflect"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// measureEvery15s feeds a tracker with a measurement every 15 seconds, of a container and the node.
func measureEvery15s(t *Tracker, from, to time.Time) {
	for at := from; at.Before(to); at = at.Add(15 * time.Second) {
		n := at.Unix()
		read := func(use int64) metric.UsageReading {
			return metric.UsageReading{Started: time.Unix(1_700_000_000, 0), CPUAt: at, MemoryAt: at,
				CPU: time.Duration(n-1_700_000_000+n%use) * time.Second / 3, Memory: uint64(1000 + n%use)}
		}
		t.Add(&metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{{Namespace: "shop", Pod: "web", Name: "main"}: read(60), {}: read(240)}}, at)
	}
}

// A tracker that gets the histories of the former one reads as one that saw everything, also if it has measured
// something itself before.
func TestHandOver(t *testing.T) {
	began := time.Unix(1_700_000_100, 0)
	for name, overlap := range map[string]time.Duration{"it is new": 0, "both measured for a while": time.Minute} {
		former, next, whole := NewTracker(), NewTracker(), NewTracker()
		update, end := began.Add(7*time.Hour), began.Add(7*time.Hour+30*time.Minute)
		measureEvery15s(former, began, update)
		measureEvery15s(next, update.Add(-overlap), update)
		if err := next.Import(former.Export(), update); err != nil {
			t.Fatal(err)
		}
		measureEvery15s(next, update, end)
		measureEvery15s(whole, began, end)
		for container, want := range whole.containers {
			got := next.containers[container]
			for resource, both := range map[string][2]*History{"cpu": {&got.cpu, &want.cpu}, "memory": {&got.memory, &want.memory}} {
				g, _ := both[0].Read()
				w, _ := both[1].Read()
				for i := range g.Windows {
					// One that is new has a hole until its second measurement.
					hole := w.Windows[i].Covered - g.Windows[i].Covered
					if !reflect.DeepEqual(g.Windows[i], w.Windows[i]) && (overlap > 0 || hole <= 0 || hole > 15*time.Second) {
						t.Errorf("%s: %s of %v, window %v: %+v, want %+v", name, resource, container, Window(i).Length(), g.Windows[i], w.Windows[i])
					}
				}
				if !both[0].oldest().Equal(both[1].oldest()) {
					t.Errorf("%s: %s of %v begins at %v, want %v", name, resource, container, both[0].oldest(), both[1].oldest())
				}
			}
		}
	}
}

// A damaged history is left out, and no length makes it take memory.
func FuzzHandOver(f *testing.F) {
	t := NewTracker()
	measureEvery15s(t, time.Unix(1_700_000_100, 0), time.Unix(1_700_004_000, 0))
	for _, one := range t.Export() {
		f.Add(one.CPU)
		f.Add(one.Memory)
	}
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, text []byte) {
		var h History
		if h.parse(text) != nil {
			return
		}
		var again History
		if err := again.parse(h.append(nil)); err != nil || !reflect.DeepEqual(h, again) {
			t.Fatalf("%v: %+v, want %+v", err, again, h)
		}
		h.Read()
		h.Add(Point{time.UnixMilli(1_800_000_000_000), time.UnixMilli(1_800_000_010_000), 1})
		h.Read()
	})
}
