package usage

import (
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// pages plays pages of one container.
type pages struct {
	*Tracker
	t   *testing.T
	now time.Time
}

var web = metric.Container{Namespace: "shop", Pod: "web-0", Name: "web"}

func newPages(t *testing.T) *pages {
	return &pages{NewTracker(), t, time.Unix(1_790_000_000, 0)}
}

// page says that the container, started some time ago, has used cores until now, measured some time ago.
func (p *pages) page(started, cpu, measured time.Duration) Record {
	p.t.Helper()
	at := p.now.Add(-measured)
	records, _ := p.Add(&metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{
		web: {Started: p.now.Add(-started), CPU: cpu, CPUAt: at, Memory: 1 << 20, MemoryAt: at}}}, p.now)
	if len(records) != 1 {
		p.t.Fatalf("%d records", len(records))
	}
	return records[0]
}

func (p *pages) covered(r Record, want time.Duration, mean float64) {
	p.t.Helper()
	d := r.CPU.Windows[Day]
	if d.Covered != want || !within(d.Mean, mean, mean, 1e-6) {
		p.t.Errorf("a day has %v of %v cores, want %v of %v", d.Covered, d.Mean, want, mean)
	}
}

// A measurement that is said again is no point; a container that starts again goes on with its windows, and
// uses nothing in between.
func TestPointsAreNewMoments(t *testing.T) {
	p := newPages(t)
	p.covered(p.page(20*time.Second, 10*time.Second, 0), 20*time.Second, 0.5)
	p.now = p.now.Add(10 * time.Second)
	p.covered(p.page(30*time.Second, 10*time.Second, 10*time.Second), 20*time.Second, 0.5)
	p.now = p.now.Add(10 * time.Second)
	p.covered(p.page(40*time.Second, 30*time.Second, 0), 40*time.Second, 0.75)
	p.now = p.now.Add(time.Minute)
	r := p.page(10*time.Second, 40*time.Second, 0) // it has started again 50 s after the last measurement, and used more than before
	p.covered(r, 50*time.Second, 1.4)
	if r.Newest.State != Known || r.Newest.CPU != 4e9 || r.Newest.Window != 10*time.Second {
		t.Errorf("the newest is %+v", r.Newest)
	}
	p.now = p.now.Add(10 * time.Second)
	r = p.page(2*time.Minute, 10*time.Second, 0) // less than before, without a start
	p.covered(r, 50*time.Second, 1.4)
	if r.Newest.State != Fell {
		t.Errorf("the newest is %+v, want that it fell", r.Newest)
	}
}

// A container that is too young waits, until its usage since its start is known.
func TestYoungContainers(t *testing.T) {
	p := newPages(t)
	if r := p.page(9*time.Second, 9*time.Second, 0); r.Newest.State != Waits || !r.CPU.End.IsZero() {
		t.Errorf("after 9 s: %+v", r)
	}
	p.now = p.now.Add(11 * time.Second)
	r := p.page(20*time.Second, 10*time.Second, 0)
	p.covered(r, 20*time.Second, 0.5)
	if r.Newest.State != Known || r.Newest.Window != 20*time.Second {
		t.Errorf("after 20 s: %+v", r.Newest)
	}
}

// A pod's windows begin with its first point also once a part of five minutes, which begins before it, is over.
func TestWindowsBeginWithTheirPod(t *testing.T) {
	p := newPages(t)
	p.now = p.now.Truncate(5 * time.Minute).Add(2 * time.Minute)
	pod := &Pod{Namespace: "shop", Name: "web-0", Node: "a", Created: p.now}
	for age := 20 * time.Second; age < 10*time.Minute; age += 10 * time.Second {
		p.now = pod.Created.Add(age)
		if r := p.page(age, age/2, 0); pod.Renewed(&r) {
			t.Fatalf("after %v the windows begin at %v, before the pod was created", age, r.Since)
		}
	}
}

// Windows begin anew once the node's clock was set back by more than five minutes, and a measurement of the far future costs the
// next one alone. Otherwise an autoscaler would read old values until the clock is where it was.
func TestAClockThatIsSetBack(t *testing.T) {
	for name, c := range map[string]struct {
		step       time.Duration
		started    time.Duration // before the clock is set back
		back, once time.Duration
	}{
		"of a kubelet":             {0, time.Hour, 50 * time.Minute, 0},
		"by days":                  {0, time.Hour, 50 * time.Hour, 0},
		"of cgroups":               {10 * time.Second, time.Hour, 50 * time.Minute, 0},
		"the container is younger": {0, 10 * time.Minute, 50 * time.Minute, 0},
		"so it is, of cgroups":     {10 * time.Second, 10 * time.Minute, 50 * time.Minute, 0},
		"a far future":             {0, time.Hour, 0, 1000 * time.Hour},
	} {
		p := newPages(t)
		used, started := time.Duration(0), p.now.Add(-c.started)
		measure := func(cores int, ahead time.Duration) Record {
			p.now, used = p.now.Add(15*time.Second), used+time.Duration(cores)*15*time.Second
			at := p.now.Add(ahead)
			records, _ := p.Add(&metric.UsagePage{Step: c.step, Readings: map[metric.Container]metric.UsageReading{
				web: {Started: started, CPU: used, CPUAt: at, Memory: uint64(cores) << 20, MemoryAt: at}}}, p.now)
			return records[0]
		}
		for range 10 {
			measure(1, 0)
		}
		measure(1, c.once)
		p.now = p.now.Add(-c.back)
		var r Record
		for range 10 {
			r = measure(4, 0)
		}
		for resource, u := range map[string]*Usage{"cpu": &r.CPU, "memory": &r.Memory} {
			want := map[string]float64{"cpu": 4, "memory": 4 << 20}[resource]
			if m := u.Windows[Minute]; !u.End.Equal(p.now) || m.Mean != want || m.Covered != time.Minute {
				t.Errorf("%s: %s of a minute until %v is %+v, want %v until %v", name, resource, u.End, m, want, p.now)
			}
		}
	}
}

// What was before a pod was created is another pod's.
func TestRenewedPods(t *testing.T) {
	p := newPages(t)
	p.page(30*time.Second, 30*time.Second, 0)
	p.now = p.now.Add(time.Minute)
	r := p.page(30*time.Second, 15*time.Second, 0)
	pod := &Pod{Namespace: "shop", Name: "web-0", Node: "a", Created: p.now.Add(-40 * time.Second)}
	if !pod.Renewed(&r) {
		t.Fatal("the windows begin before the pod, which is not seen")
	}
	p.Renew("shop", "other", pod.Created)
	p.Renew("shop", "web-0", pod.Created)
	p.now = p.now.Add(10 * time.Second)
	r = p.page(40*time.Second, 20*time.Second, 0)
	if pod.Renewed(&r) {
		t.Error("the windows still begin before the pod")
	}
	p.covered(r, 40*time.Second, 0.5)

	latest := NewLatest()
	latest.Set("a", Report{At: p.now, Records: []Record{r}}, p.now)
	if got := latest.Containers(pod, p.now); len(got) != 1 {
		t.Errorf("the pod has %d containers", len(got))
	}
	next := *pod
	next.Created = p.now // its container has not started yet
	if got := latest.Containers(&next, p.now); len(got) != 0 {
		t.Errorf("the next pod of the name has %d containers of the former one", len(got))
	}
	if got := latest.Containers(pod, p.now.Add(staleAfter+time.Second)); len(got) != 0 {
		t.Error("usage stands although nothing is heard of the node")
	}
}

// The windows are derived again with a new point, and when points are dropped; a page that repeats a
// measurement derives nothing.
func TestWindowsAreDerivedOnChange(t *testing.T) {
	p := newPages(t)
	p.page(20*time.Second, 10*time.Second, 0)
	c := p.containers[web]
	mark := time.Unix(1, 0) // no derivation says this
	c.cpuUsage.End = mark
	p.now = p.now.Add(2 * time.Second)
	if r := p.page(22*time.Second, 10*time.Second, 2*time.Second); r.CPU.End != mark {
		t.Error("a repeated measurement derives the windows")
	}
	p.now = p.now.Add(10 * time.Second)
	if r := p.page(32*time.Second, 16*time.Second, 0); !r.CPU.End.Equal(p.now) {
		t.Errorf("the windows end at %v, want %v", r.CPU.End, p.now)
	}
	p.Renew(web.Namespace, web.Pod, p.now)
	if r := p.page(32*time.Second, 16*time.Second, 0); !r.CPU.End.IsZero() {
		t.Errorf("the windows end at %v although all points are dropped", r.CPU.End)
	}
}

// The newest report of a node counts, also if it came first, for a minute.
func TestTheNewestReportCounts(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	latest := NewLatest()
	set := func(number uint64, age time.Duration, own bool) {
		latest.Set("a", Report{Number: number, At: now.Add(-age), Own: own, Records: []Record{{}}}, now)
	}
	wants := func(number uint64, own int) {
		t.Helper()
		if r, _ := latest.Report("a", now); r.Number != number || len(latest.Own(now)) != own {
			t.Errorf("report %d, of %d agents here; want %d, %d", r.Number, len(latest.Own(now)), number, own)
		}
	}
	set(5, 0, false)
	wants(5, 0)
	set(4, 0, true) // late
	wants(5, 0)
	set(5, 0, true) // the agent has moved here
	wants(5, 1)
	set(6, 0, false) // and away
	wants(6, 0)
	now = now.Add(staleAfter + time.Second)
	wants(0, 0)
	set(3, staleAfter+time.Second, false) // as stale as what is held
	wants(0, 0)
	set(2, 0, true) // its clock was set back
	wants(2, 1)
}
