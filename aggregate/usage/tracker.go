package usage

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Record is what is known of a container, or of the node.
type Record struct {
	Container metric.Container
	// Started is when the container started; zero: not known.
	Started time.Time
	// Since is when the first point of the windows begins; zero: there is none.
	Since time.Time
	// CPU is in cores, Memory in bytes. Without an End they are not known yet.
	CPU, Memory Usage
	Newest      Newest
	// Second is the newest measurement of a source that measures each second.
	Second Second
}

// Second is what was used from one measurement to the next one, as shorter points than those of the windows: cores and
// bytes. A negative number is not known.
type Second struct{ CPU, Memory float32 }

// Unknown is the Second of a container of which there is none.
var Unknown = Second{-1, -1}

// Newest is what the newest two measurements say, as metrics-server has it.
type Newest struct {
	State State
	// CPU is in billionths of a core, the mean of Window; Memory is in bytes. Both end at End.
	CPU, Memory uint64
	End         time.Time
	Window      time.Duration
}

// State says whether a container's usage can be served.
type State uint8

// The states.
const (
	// Known: there are two measurements.
	Known State = iota
	// Waits: there is one. A pod waits for all its containers.
	Waits
	// Fell: the processor time is less than before. The pod is served without the container.
	Fell
	// Zero: no processor time or memory, which a container that runs cannot have. The pod is not served.
	Zero
)

const (
	// shortest is the least time after a start from which processor time since then is taken for usage.
	shortest = 10 * time.Second
	// freshFor is the age up to which a container's usage is that since its start.
	freshFor = time.Minute
	// firstMoments is the time in which a kubelet measures each container a second time.
	firstMoments = 20 * time.Second
	// forgetAfter is the time without a measurement after which a container is forgotten. One that starts
	// again is back by then.
	forgetAfter = 10 * time.Minute
)

// Tracker follows the containers of a node, and the node. It is not safe for concurrent use.
type Tracker struct {
	containers map[metric.Container]*tracked
	// at is the moment of the last page, and count how many containers it had.
	at    time.Time
	count int
	// first is the newest measurement of the first page.
	first    time.Time
	complete bool // see IsComplete
}

// tracked is one container.
type tracked struct {
	cpu, memory History
	// cpuUsage and memoryUsage are what the histories say, if they have not changed since.
	cpuUsage, memoryUsage Usage
	changed               bool
	base                  metric.UsageReading // from which the next point counts
	step                  step
	// last and previous are the two measurements that Newest compares.
	last, previous *metric.UsageReading
	seen           time.Time
}

// NewTracker follows nothing yet.
func NewTracker() *Tracker { return &Tracker{containers: map[metric.Container]*tracked{}} }

// Add takes what was measured, and returns a record of each container of the page, ordered by name. Of a page with a
// step, only reports whether the records say nothing new but their seconds.
func (t *Tracker) Add(page *metric.UsagePage, now time.Time) (records []Record, only bool) {
	zero := map[metric.Container]bool{} // pods
	for name, r := range page.Readings {
		if r.CPUAt.IsZero() || r.MemoryAt.IsZero() || r.CPU == 0 || r.Memory == 0 {
			zero[podOf(name)] = true
		}
	}
	records, only = make([]Record, 0, len(page.Readings)), page.Step > 0
	for name, r := range page.Readings {
		c := t.containers[name]
		if c == nil {
			c = new(tracked)
			t.containers[name] = c
		}
		second, whole, m := Unknown, true, r
		if m.Started.After(m.CPUAt) { // the clock was set back since
			m.Started = time.Time{}
		}
		if page.Step > 0 {
			second, whole = c.follow(m, page.Step)
		} else {
			c.point(m)
		}
		only = only && !whole && !c.changed && c.seen == t.at
		c.seen = now
		c.derive()
		record := Record{Container: name, Started: r.Started, Since: c.since(), CPU: c.cpuUsage, Memory: c.memoryUsage, Second: second}
		switch {
		case zero[podOf(name)]:
			c.last, c.previous = nil, nil
			record.Newest.State = Zero
		case whole || c.last == nil:
			c.compare(r, name.Pod == "")
			record.Newest = c.newest()
		default:
			record.Newest = c.newest()
		}
		records = append(records, record)
	}
	only = only && len(records) == t.count
	t.at, t.count = now, len(records)
	t.complete = t.complete || t.completes(page, records)
	for name, c := range t.containers {
		if now.Sub(c.seen) > forgetAfter {
			delete(t.containers, name)
		} else if c.seen != now {
			c.last, c.previous = nil, nil // as one that is new
		}
	}
	slices.SortFunc(records, func(a, b Record) int { return compare(a.Container, b.Container) })
	return records, only
}

// IsComplete reports whether the containers that ran before the first page were measured twice, or had the time for it.
// Until then the node's former agent knows more.
func (t *Tracker) IsComplete() bool { return t.complete }

// completes reports whether the Tracker is complete with a page. Containers of a source with steps are named in the
// first one.
func (t *Tracker) completes(page *metric.UsagePage, records []Record) bool {
	var newest time.Time
	for _, r := range page.Readings {
		if r.CPUAt.After(newest) {
			newest = r.CPUAt
		}
	}
	if t.first.IsZero() {
		t.first = newest
	}
	passed := newest.Sub(t.first)
	if passed < 0 || passed >= firstMoments {
		return true
	}
	return passed >= page.Step && !slices.ContainsFunc(records, func(r Record) bool {
		return r.Newest.State == Waits && !r.Started.After(t.first)
	})
}

// podOf names the pod of a container, and the node by itself.
func podOf(c metric.Container) metric.Container { c.Name = ""; return c }

func compare(a, b metric.Container) int {
	if by := strings.Compare(a.Namespace, b.Namespace); by != 0 {
		return by
	}
	if by := strings.Compare(a.Pod, b.Pod); by != 0 {
		return by
	}
	return strings.Compare(a.Name, b.Name)
}

// Renew drops the usage of a pod from before it was created: that of a former pod of the name.
func (t *Tracker) Renew(namespace, pod string, created time.Time) {
	for name, c := range t.containers {
		if name.Namespace == namespace && name.Pod == pod && c.since().Before(created) {
			c.cpu.dropBefore(created)
			c.memory.dropBefore(created)
			c.changed = true
		}
	}
}

// dropBefore drops the points that begin before a moment, and everything older than an hour.
func (h *History) dropBefore(moment time.Time) {
	points := h.points
	*h = History{}
	for _, p := range points {
		if p.from() < moment.UnixMilli() {
			continue
		}
		h.Add(Point{time.UnixMilli(p.from()), time.UnixMilli(p.to), float64(p.value)})
	}
}

// derive reads the windows anew if there is a new point. Most pages of a kubelet repeat most measurements.
func (c *tracked) derive() {
	if !c.changed {
		return
	}
	c.cpuUsage, _ = c.cpu.Read()
	c.memoryUsage, _ = c.memory.Read()
	c.changed = false
}

func (c *tracked) since() time.Time {
	first, other := c.cpu.oldest(), c.memory.oldest()
	if first.IsZero() || !other.IsZero() && other.Before(first) {
		return other
	}
	return first
}

// oldest returns a moment before which the windows have nothing; zero: they have nothing at all.
func (h *History) oldest() time.Time {
	if len(h.points) == 0 {
		return time.Time{}
	}
	return time.UnixMilli(h.begin)
}

// point adds to the histories the part of a measurement that they lack. A history whose newest point is of before the
// clock was set back begins anew.
func (c *tracked) point(r metric.UsageReading) {
	if isSetBack(c.base.CPUAt, r.CPUAt) {
		c.base.CPU, c.base.CPUAt = 0, time.Time{}
	}
	if isSetBack(c.base.MemoryAt, r.MemoryAt) {
		c.base.MemoryAt = time.Time{}
	}
	if isSetBack(c.cpu.end(), r.CPUAt) {
		c.cpu, c.changed = History{}, true
	}
	if isSetBack(c.memory.end(), r.MemoryAt) {
		c.memory, c.changed = History{}, true
	}
	if !r.CPUAt.IsZero() && r.CPUAt.After(c.base.CPUAt) {
		began := c.base.CPUAt.IsZero() || r.CPU < c.base.CPU || r.Started.After(c.base.CPUAt) ||
			r.CPUAt.Sub(c.base.CPUAt) > time.Duration(longest)*time.Millisecond
		if began {
			c.base.CPU, c.base.CPUAt = 0, r.Started
		}
		length := r.CPUAt.Sub(c.base.CPUAt)
		if !began || length >= shortest { // else the next one counts from the start
			c.changed = c.cpu.Add(Point{c.base.CPUAt, r.CPUAt, (r.CPU - c.base.CPU).Seconds() / length.Seconds()}) || c.changed
			c.base.CPU, c.base.CPUAt = r.CPU, r.CPUAt
		}
	}
	if !r.MemoryAt.IsZero() && r.MemoryAt.After(c.base.MemoryAt) {
		from := c.base.MemoryAt
		if r.MemoryAt.Sub(from) > time.Duration(longest)*time.Millisecond {
			from = r.MemoryAt.Add(-TenSeconds.Length())
		}
		c.changed = c.memory.Add(Point{from, r.MemoryAt, float64(r.Memory)}) || c.changed
		c.base.MemoryAt = r.MemoryAt
	}
}

// isSetBack reports whether a measurement is so long before an earlier one that the node's clock was set back between
// them: by more than a point can be long. Up to that, points are left out until the clock is where it was.
func isSetBack(before, now time.Time) bool {
	return !now.IsZero() && before.UnixMilli()-now.UnixMilli() > longest
}

// compare keeps the two measurements that say the newest usage.
func (c *tracked) compare(r metric.UsageReading, node bool) {
	age := r.CPUAt.Sub(r.Started)
	switch {
	case !node && age >= shortest && age < freshFor:
		c.previous = &metric.UsageReading{Started: r.Started, CPUAt: r.Started}
	case c.last == nil || !node && !r.Started.Before(c.last.CPUAt):
		c.previous = nil // new, or it has started again
	case r.CPUAt.After(c.last.CPUAt):
		c.previous = c.last
	case c.previous != nil && !c.previous.CPUAt.Before(r.CPUAt):
		c.previous = nil // it went back
	}
	c.last = &r
}

// newest computes what the two measurements say.
func (c *tracked) newest() Newest {
	n := Newest{Memory: c.last.Memory, End: c.last.CPUAt}
	switch {
	case c.previous == nil:
		n.State = Waits
	case c.last.CPU < c.previous.CPU || !c.last.Started.IsZero() && c.last.Started.Before(c.previous.Started):
		n.State = Fell
	default:
		n.Window = c.last.CPUAt.Sub(c.previous.CPUAt)
		n.CPU = uint64(float64(c.last.CPU-c.previous.CPU) / n.Window.Seconds())
	}
	return n
}
