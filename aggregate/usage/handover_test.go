package usage

import (
	"math/rand/v2"
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
					if !reflect.DeepEqual(g.Windows[i], w.Windows[i]) {
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

// An update is no gap: the next agent says nothing before its windows are complete, and once it has the history, what it says is as much
// as the former one said, with the first page, whether that repeats a measurement or not.
func TestAnUpdateIsNoGap(t *testing.T) {
	for name, repeats := range map[string]bool{"the page repeats a measurement": true, "the page has another one": false} {
		former, next, latest := newPages(t), newPages(t), NewLatest()
		at, used, began := former.now, time.Duration(0), former.now.Add(-time.Hour)
		pod := &Pod{Namespace: "shop", Name: "web-0", Node: "a", Created: began}
		say := func(p *pages, measured time.Time) {
			records, _ := p.Add(&metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{
				web: {Started: began, CPU: used, CPUAt: measured, Memory: 1 << 20, MemoryAt: measured}}}, at)
			if p.IsComplete() {
				latest.Set("a", Report{Number: uint64(at.UnixNano()), At: at, Records: records}, at)
			}
		}
		served := func(when string, end time.Time) {
			t.Helper()
			_, newest, window, ok := latest.Served(pod, at)
			u := latest.Containers(pod, at)[0].CPU
			if !ok || !newest.Equal(end) || window != 15*time.Second || !u.End.Equal(end) || u.Windows[Hour].Covered != time.Hour || u.Windows[Hour].Max > 1.01 {
				t.Errorf("%s, %s: served %t to %v over %v; windows end at %v: %+v", name, when, ok, newest, window, u.End, u.Windows[Hour])
			}
		}
		for range 300 {
			at, used = at.Add(15*time.Second), used+15*time.Second
			say(former, at)
		}
		measured := at
		at = at.Add(time.Second)
		say(next, measured)
		served("the next one has started", measured)
		if next.IsComplete() {
			t.Errorf("%s: one measurement is all", name)
		}
		at = at.Add(4 * time.Second)
		if err := next.Import(former.Export(), at); err != nil {
			t.Fatal(err)
		}
		at = at.Add(10 * time.Second)
		if !repeats {
			measured, used = at, used+15*time.Second
		}
		say(next, measured)
		if !next.IsComplete() {
			t.Errorf("%s: two measurements are not all", name)
		}
		served("after the hand-over", measured)
	}
}

// Measurements of different agents of a source that does not know when containers of before started are compared.
func TestMeasurementsWithoutAStartAreHandedOver(t *testing.T) {
	former, next := newSeconds(), newSeconds()
	next.random = rand.New(rand.NewPCG(2, 2))
	start := former.now.Add(-time.Minute)
	former.readings[web], next.readings[web] = metric.UsageReading{Started: start}, metric.UsageReading{}
	for range 65 {
		former.use(web, 500*time.Millisecond, 100)
		former.add()
	}
	next.now = former.now.Add(-3 * time.Second)
	r := former.readings[web]
	next.readings[web] = metric.UsageReading{CPU: r.CPU - 2*time.Second}
	for range 3 {
		next.use(web, 500*time.Millisecond, 100)
		next.add()
	}
	if err := next.Import(former.Export(), next.now); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		next.use(web, 500*time.Millisecond, 100)
		all, _ := next.add()
		if n := all[web].Newest; n.State != Known || n.CPU < 4e8 || n.CPU > 6e8 {
			t.Fatalf("after the hand-over: %+v", n)
		}
	}
	c := next.containers[web]
	if hour, memory := c.cpuUsage.Windows[Hour], c.memoryUsage.Windows[Hour]; hour.Covered < 70*time.Second || hour.Max > 0.6 ||
		memory.Covered < 70*time.Second || memory.Max != 100 {
		t.Errorf("an hour has %+v of processors and %+v of memory", hour, memory)
	}
}

// An agent whose node has had none before waits for the second measurement of what runs, for twenty seconds at most; what
// starts later it does not wait for.
func TestWindowsThatAreComplete(t *testing.T) {
	began := time.Unix(1_790_000_000, 0)
	late := metric.Container{Namespace: "shop", Pod: "late", Name: "main"}
	for name, c := range map[string]struct {
		step time.Duration
		late time.Duration // of its start, after the first page
		want time.Duration
	}{
		"one that runs is measured once":  {0, -time.Hour, 20 * time.Second},
		"one that starts":                 {0, 2 * time.Second, 5 * time.Second},
		"a source with steps names first": {10 * time.Second, 2 * time.Second, 10 * time.Second},
	} {
		tracker := NewTracker()
		for passed := time.Duration(0); passed <= time.Minute; passed += 5 * time.Second {
			now := began.Add(passed)
			page := &metric.UsagePage{Step: c.step, Readings: map[metric.Container]metric.UsageReading{
				web: {Started: began.Add(-time.Hour), CPU: time.Second + passed, CPUAt: now, Memory: 1, MemoryAt: now}}}
			if c.late < passed {
				at := began.Add(max(c.late, -time.Second) + time.Second)
				page.Readings[late] = metric.UsageReading{Started: began.Add(c.late), CPU: time.Second, CPUAt: at, Memory: 1, MemoryAt: at}
			}
			if tracker.Add(page, now); tracker.IsComplete() != (passed >= c.want) {
				t.Errorf("%s: after %v complete is %t", name, passed, tracker.IsComplete())
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
		f.Add(one.Measured)
	}
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, text []byte) {
		var c tracked
		if c.parseMeasured(text) == nil && len(text) > 0 {
			var again tracked
			if err := again.parseMeasured(c.appendMeasured(nil)); err != nil || !reflect.DeepEqual(c, again) {
				t.Fatalf("%v: %+v, want %+v", err, again, c)
			}
			NewTracker().Import([]ContainerHistory{{Measured: text}}, time.Now())
		}
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
