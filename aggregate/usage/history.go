package usage

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Point is the use of a resource from one moment to another: a mean, such as cores.
type Point struct {
	From, To time.Time
	Value    float64
}

// Window is a span of which usage is derived. All windows end at the end of the newest point.
type Window uint8

// The windows. TenSeconds is the newest point, whatever its length; the others roll.
const (
	TenSeconds Window = iota
	Minute
	Hour
	Day
	// Windows is their number.
	Windows
)

var lengths = [Windows]time.Duration{10 * time.Second, time.Minute, time.Hour, 24 * time.Hour}

// Length returns the window's nominal length.
func (w Window) Length() time.Duration { return lengths[w] }

// Derived is what a window says. Each value counts with the time that it held.
type Derived struct {
	Mean, Max float64
	// NinetyFive is the 95th percentile by nearest rank: of the points up to an hour; of a day within one percent.
	NinetyFive float64
	// Covered is how much of the window the points cover.
	Covered time.Duration
}

// Usage is what a history says.
type Usage struct {
	End     time.Time
	Windows [Windows]Derived
}

// History keeps the usage of one resource. The zero value is ready. It is not safe for concurrent use.
type History struct {
	points []point // of the last hour and of the open part, the oldest first
	parts  []part  // of the last day, without the open one
	bins   []bin   // of all parts, in their order
	begin  int64   // of the first point that was added, in milliseconds of Unix time
}

// point is a Point in milliseconds.
type point struct {
	to     int64 // of Unix time
	length uint32
	value  float32
}

func (p point) from() int64 { return p.to - int64(p.length) }

// overlap is the part of the point after a moment, in milliseconds.
func (p point) overlap(after int64) int64 { return p.to - max(p.from(), min(after, p.to)) }

const (
	hour       = int64(time.Hour / time.Millisecond)
	day        = 24 * hour
	partLength = int64(5 * time.Minute / time.Millisecond)
	// longest bounds a point's length. A reading after more time than that begins anew.
	longest = partLength
)

// Add adds a point, and reports whether it did: a point must have a length, of five minutes at most, and
// begin where the newest one ends, or later.
func (h *History) Add(p Point) bool {
	from, to := p.From.UnixMilli(), p.To.UnixMilli()
	if to <= from || to-from > longest || !(p.Value >= 0 && p.Value <= math.MaxFloat32) {
		return false
	}
	if last, ok := h.last(); ok && from < last.to {
		return false
	}
	if len(h.points) == 0 && len(h.parts) == 0 {
		h.begin = from
	}
	h.points = append(h.points, point{to, uint32(to - from), float32(p.Value)})
	h.closeParts(to)
	h.forget(to)
	return true
}

func (h *History) last() (point, bool) {
	if len(h.points) == 0 {
		return point{}, false
	}
	return h.points[len(h.points)-1], true
}

// end is the end of the newest point; zero: there is none.
func (h *History) end() time.Time {
	if last, ok := h.last(); ok {
		return time.UnixMilli(last.to)
	}
	return time.Time{}
}

// firstAfter returns the index of the first point that ends after a moment.
func (h *History) firstAfter(moment int64) int {
	first, _ := slices.BinarySearchFunc(h.points, moment+1, func(p point, t int64) int { return cmp.Compare(p.to, t) })
	return first
}

// forget drops points and parts that no window has from now on.
func (h *History) forget(now int64) {
	drop := h.firstAfter(now - hour)
	if drop > 0 && drop >= len(h.points)/4 { // now and then: it moves all others
		h.points = append(h.points[:0], h.points[drop:]...)
	}
	gone, bins := 0, 0
	for gone < len(h.parts) && h.parts[gone].start < now-day {
		bins += int(h.parts[gone].bins)
		gone++
	}
	if gone > 0 {
		h.parts, h.bins = append(h.parts[:0], h.parts[gone:]...), append(h.bins[:0], h.bins[bins:]...)
	}
}

// Read derives the windows. Not ok: there is no point.
func (h *History) Read() (u Usage, ok bool) {
	last, ok := h.last()
	if !ok {
		return Usage{}, false
	}
	value := float64(last.value)
	u.End = time.UnixMilli(last.to)
	u.Windows[TenSeconds] = Derived{value, value, value, time.Duration(last.length) * time.Millisecond}
	u.Windows[Minute] = h.recent(last.to - int64(time.Minute/time.Millisecond))
	u.Windows[Hour] = h.recent(last.to - hour)
	u.Windows[Day] = h.day()
	return u, true
}

// weighted is a value and how long it held, in milliseconds.
type weighted struct {
	value  float64
	weight int64
}

// recent derives the window after a moment from the points.
func (h *History) recent(after int64) Derived {
	var d Derived
	var sum float64
	var total int64
	values := make([]weighted, 0, 400)
	for _, p := range slices.Backward(h.points) {
		weight := p.overlap(after)
		if weight == 0 {
			break
		}
		value := float64(p.value)
		d.Max = max(d.Max, value)
		sum += value * float64(weight)
		total += weight
		values = append(values, weighted{value, weight})
	}
	d.Mean, d.Covered = sum/float64(total), time.Duration(total)*time.Millisecond
	slices.SortFunc(values, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	d.NinetyFive = ninetyFive(values, total)
	return d
}

// ninetyFive returns the least value that held, with all smaller ones, for 95 percent of the time. Values are sorted.
func ninetyFive(values []weighted, total int64) float64 {
	var below int64
	for _, v := range values {
		below += v.weight
		if below*100 >= total*95 {
			return v.value
		}
	}
	return 0
}
