package usage

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// seconds plays a source that measures each second, at moments that jitter.
type seconds struct {
	*Tracker
	random   *rand.Rand
	now      time.Time
	readings map[metric.Container]metric.UsageReading
}

func newSeconds() *seconds {
	return &seconds{NewTracker(), rand.New(rand.NewPCG(1, 1)), time.Unix(1_790_000_003, 0), map[metric.Container]metric.UsageReading{}}
}

// use has a container use some time of a processor until a second later.
func (s *seconds) use(name metric.Container, cpu time.Duration, memory uint64) {
	r := s.readings[name]
	r.CPU, r.Memory = r.CPU+cpu, memory
	r.CPUAt = s.now.Add(time.Second + time.Duration(s.random.IntN(100))*time.Millisecond)
	r.MemoryAt = r.CPUAt
	s.readings[name] = r
}

func (s *seconds) add() (map[metric.Container]Record, bool) {
	s.now = s.now.Add(time.Second)
	records, only := s.Add(&metric.UsagePage{Readings: s.readings, Step: 10 * time.Second}, s.now)
	all := map[metric.Container]Record{}
	for _, r := range records {
		all[r.Container] = r
	}
	return all, only
}

// Points of windows follow one another, one in each ten seconds, and their sum is exactly what the counter grew by; in
// between, only the newest second is new. The memory of a point is the mean.
func TestStepsAreSequential(t *testing.T) {
	s := newSeconds()
	var first, last metric.UsageReading
	held := 0.0 // bytes, times seconds
	ends := map[time.Time]bool{}
	for i := range 1000 {
		before := s.readings[web]
		s.use(web, time.Duration(s.random.IntN(900))*time.Millisecond+1, 1000+uint64(s.random.IntN(500)))
		now := s.readings[web]
		if i == 0 {
			first, last = now, now
			s.add()
			continue
		}
		held += float64(now.Memory) * now.MemoryAt.Sub(before.MemoryAt).Seconds()
		records, only := s.add()
		r := records[web]
		passed := now.CPUAt.Sub(before.CPUAt).Seconds()
		if want := (now.CPU - before.CPU).Seconds() / passed; !within(float64(r.Second.CPU), want, want, 1e-6) || uint64(r.Second.Memory) != now.Memory {
			t.Fatalf("second %d: %+v, want %v cores and %d bytes", i, r.Second, want, now.Memory)
		}
		crossed := now.CPUAt.Unix()/10 != before.CPUAt.Unix()/10
		if only == crossed {
			t.Fatalf("second %d: only seconds are new: %v", i, only)
		}
		if !crossed {
			continue
		}
		if !r.CPU.End.Equal(now.CPUAt) || ends[r.CPU.End] {
			t.Fatalf("a point ends at %v, want %v", r.CPU.End, now.CPUAt)
		}
		ends[r.CPU.End] = true
		length := now.CPUAt.Sub(last.CPUAt)
		point := r.CPU.Windows[TenSeconds]
		if want := (now.CPU - last.CPU).Seconds() / length.Seconds(); point.Covered != length || !within(point.Mean, want, want, 2e-7) {
			t.Fatalf("%+v, want %v over %v", point, want, length)
		}
		if want := held / length.Seconds(); !within(r.Memory.Windows[TenSeconds].Mean, want, want, 1e-3) {
			t.Fatalf("memory is %v, want %v", r.Memory.Windows[TenSeconds].Mean, want)
		}
		if r.Newest.State == Known && (r.Newest.Window != length || r.Newest.Memory != now.Memory) {
			t.Fatalf("the newest is %+v, want that of %v", r.Newest, length)
		}
		last, held = now, 0
	}
	all := s.containers[web].cpu
	if covered := last.CPUAt.Sub(first.CPUAt); covered != time.Duration(all.points[len(all.points)-1].to-all.points[0].from())*time.Millisecond {
		t.Errorf("the points cover %v", covered)
	}
	for i := 1; i < len(all.points); i++ {
		if all.points[i].from() != all.points[i-1].to {
			t.Errorf("point %d begins %d ms after the one before", i, all.points[i].from()-all.points[i-1].to)
		}
	}
}

// What a container used before it started again counts, and so does what it used since. A counter that falls by itself
// is no usage.
func TestStepsOfAContainerThatStartsAgain(t *testing.T) {
	s := newSeconds()
	for range 5 {
		s.use(web, 400*time.Millisecond, 100)
		s.add()
	}
	// It has used more since than all the time before: only its start tells.
	again := s.now.Add(300 * time.Millisecond)
	s.readings[web] = metric.UsageReading{Started: again, CPUAt: again, MemoryAt: again}
	s.use(web, 3*time.Second, 100)
	if records, only := s.add(); records[web].Second != Unknown || only {
		t.Errorf("the second of a start is %+v", records[web].Second)
	}
	for range 10 {
		s.use(web, 400*time.Millisecond, 100)
		s.add()
	}
	used := 0.0
	for _, p := range s.containers[web].cpu.points {
		used += float64(p.value) * float64(p.length) / 1000
	}
	open := s.containers[web].step.last.CPU - s.containers[web].base.CPU
	if want := 4*0.4 + 3 + 10*0.4; !within(used+open.Seconds(), want, want, 1e-6) {
		t.Errorf("the points have %v s of a processor and %v are open, want %v", used, open, want)
	}
	before := s.containers[web].cpuUsage.Windows[Hour].Max
	s.readings[web] = metric.UsageReading{Started: again, CPUAt: s.now, MemoryAt: s.now}
	s.use(web, time.Millisecond, 100)
	for range 20 {
		s.add()
		s.use(web, 400*time.Millisecond, 100)
	}
	if got := s.containers[web].cpuUsage.Windows[Hour].Max; got > before {
		t.Errorf("a counter that fell made a point of %v cores", got)
	}
}

// What is open of a step is handed over with the rest, and the next tracker goes on from its first measurement.
func TestOpenStepsAreHandedOver(t *testing.T) {
	s, next := newSeconds(), NewTracker()
	for range 26 {
		s.use(web, 500*time.Millisecond, 100)
		s.add()
	}
	until := s.readings[web].CPUAt
	if err := next.Import(s.Export(), s.now); err != nil {
		t.Fatal(err)
	}
	h := next.containers[web].cpu
	if last := h.points[len(h.points)-1]; last.to != until.UnixMilli() || last.length >= 10_000 {
		t.Errorf("the last point ends at %d and is %d ms long, want the open step until %d", last.to, last.length, until.UnixMilli())
	}
	s.Tracker = next
	for range 20 {
		s.use(web, 500*time.Millisecond, 100)
		s.add()
	}
	d := next.containers[web].cpuUsage.Windows[Minute]
	if d.Covered < 30*time.Second || d.Max > 0.6 {
		t.Errorf("after the hand-over a minute has %+v", d)
	}
}

// A container that comes or goes is news, also within a step; its first second is known with its second measurement.
func TestStepsOfOthers(t *testing.T) {
	s := newSeconds()
	other := metric.Container{Namespace: "shop", Pod: "late", Name: "main"}
	step := func(want bool) map[metric.Container]Record {
		t.Helper()
		s.use(web, time.Millisecond, 100)
		if !s.readings[other].CPUAt.IsZero() {
			s.use(other, 500*time.Millisecond, 100)
		}
		records, only := s.add()
		if only != want {
			t.Errorf("at %v only seconds are new: %v", s.now.UTC(), only)
		}
		return records
	}
	step(false)
	step(true)
	s.readings[other] = metric.UsageReading{CPUAt: s.now}
	if r := step(false)[other]; r.Second != Unknown || !r.CPU.End.IsZero() || !r.Since.IsZero() {
		t.Errorf("at first sight: %+v", r)
	}
	if r := step(true)[other]; r.Second.CPU < 0.4 || r.Second.CPU > 0.6 {
		t.Errorf("a second later: %+v", r.Second)
	}
	delete(s.readings, other)
	step(false)
}
