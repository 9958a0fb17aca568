package usage

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// part is what was used within five minutes of Unix time.
type part struct {
	start  int64  // milliseconds of Unix time
	weight uint32 // milliseconds with a point
	bins   uint16 // how many of History.bins
	mean   float32
	max    float32
}

// bin counts the time in which a value was within one percent of the bin's.
type bin struct {
	index  int16
	weight uint16 // in binUnit
}

// binUnit is the precision of times in sketches, in milliseconds: the time of a part fits 16 bits.
const binUnit = 10

// growth is the ratio of two bins: their edges are one percent from the value between.
var growth = math.Log(1.01 / 0.99)

// zeroBin has the values below every other bin's.
const zeroBin = math.MinInt16

func binOf(value float64) int16 {
	if value < 1e-100 {
		return zeroBin
	}
	return int16(min(max(math.Ceil(math.Log(value)/growth), zeroBin+1), math.MaxInt16))
}

// valueOf is one percent from every value of the bin, at most.
func valueOf(index int16) float64 {
	if index == zeroBin {
		return 0
	}
	return 2 * math.Exp(float64(index)*growth) / (1.01/0.99 + 1)
}

// closeParts makes parts of the points before the part that is open at a moment.
func (h *History) closeParts(now int64) {
	open := now - now%partLength
	next := h.points[0].from()
	if len(h.parts) > 0 {
		next = h.parts[len(h.parts)-1].start + partLength
	}
	next = max(next-next%partLength, open-day)
	for ; next < open; next += partLength {
		if p, bins := h.partOf(next); p.weight > 0 {
			h.parts, h.bins = append(h.parts, p), append(h.bins, bins...)
		}
	}
}

// partOf makes the part that starts at a moment from the points.
func (h *History) partOf(start int64) (p part, bins []bin) {
	p.start = start
	end := start + partLength
	sum, times := 0.0, map[int16]int64{}
	for _, q := range h.points[h.firstAfter(start):] {
		if q.from() >= end {
			break
		}
		weight := q.overlap(start) - q.overlap(end)
		if weight <= 0 {
			continue
		}
		p.weight += uint32(weight)
		p.max = max(p.max, q.value)
		sum += float64(q.value) * float64(weight)
		times[binOf(float64(q.value))] += weight
	}
	if p.weight == 0 {
		return p, nil
	}
	p.mean = float32(sum / float64(p.weight))
	for index, weight := range times {
		bins = append(bins, bin{index, uint16(max((weight+binUnit/2)/binUnit, 1))})
	}
	slices.SortFunc(bins, func(a, b bin) int { return cmp.Compare(a.index, b.index) })
	p.bins = uint16(len(bins))
	return p, bins
}

// day derives the window of a day: of all parts, and the open one.
func (h *History) day() Derived {
	var d Derived
	var sum float64
	var total int64
	times := map[int16]int64{}
	add := func(p part, bins []bin) {
		d.Max = max(d.Max, float64(p.max))
		sum += float64(p.mean) * float64(p.weight)
		total += int64(p.weight)
		for _, b := range bins {
			times[b.index] += int64(b.weight)
		}
	}
	bins := h.bins
	for _, p := range h.parts {
		add(p, bins[:p.bins])
		bins = bins[p.bins:]
	}
	last, _ := h.last()
	add(h.partOf(last.to - last.to%partLength))
	d.Mean, d.Covered = sum/float64(total), time.Duration(total)*time.Millisecond
	values, units := make([]weighted, 0, len(times)), int64(0)
	for index, weight := range times {
		values = append(values, weighted{valueOf(index), weight})
		units += weight
	}
	slices.SortFunc(values, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	d.NinetyFive = min(ninetyFive(values, units), d.Max)
	return d
}
