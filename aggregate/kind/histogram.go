package kind

import (
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// pushed is the state of a timer's pre-aggregated histograms: the newest running total and the
// growth in each unit of each span. Buckets stay as pushed, a dozen numbers per unit, and are
// spread over hundreds of bins only when read. Guarded by the history lock.
type pushed struct {
	last *cumulative // nil: no running total was pushed
	progress
	quantiles []metric.Quantile // of the newest push
	units     [][]pushedSlot    // by span
	slots     int64             // most slots of all spans
	bounds    []float64         // of the newest histogram; later parts with equal bounds share them
	most      int               // bounds of the largest histogram
}

func newPushed(spans []window.Span) *pushed {
	p := &pushed{units: make([][]pushedSlot, len(spans))}
	for i := range spans {
		p.slots += int64(spans[i].Kept())
	}
	return p
}

// pushedSlot is the growth in one unit of a span.
type pushedSlot struct {
	unit    uint32
	unsaved bool // changed since the last delta
	gain
	parts []part // one for each list of bounds in the unit
}

// gain is the growth of a histogram: count, sum (NaN: unknown) and bounds of the values (infinite:
// unknown).
type gain struct{ count, sum, min, max float64 }

// part is a list of buckets: their upper bounds, and the count of each bucket and of the overflow.
// Bounds are shared and immutable.
type part struct{ bounds, counts []float64 }

// maxParts bounds the parts of a slot. Buckets with further bounds are merged into the last part.
const maxParts = 4

// takeLocked stores a histogram and returns its growth. The first running total of a series counts
// as no growth.
func (p *pushed) takeLocked(s *metric.Sample, now window.Moment) (gain, part) {
	h := s.Histogram
	if s.Op == metric.Merge {
		p.quantiles = slices.Clone(h.Quantiles)
		fresh := p.copyOf(h)
		p.share(&fresh.part)
		return fresh.gain(h), fresh.part
	}
	total := p.copyOf(h)
	grown, fell := total.since(p.last)
	anew, late := p.judge(s, fell, now)
	if late {
		return gain{}, part{}
	}
	p.see(s, now)
	p.quantiles = slices.Clone(h.Quantiles)
	first := p.last == nil
	p.last = total
	p.share(&total.part)
	switch {
	case first:
		return gain{}, part{}
	case anew:
		grown = total
	}
	return grown.gain(h), grown.part
}

// copyOf copies a borrowed histogram, except bounds that are shared.
func (p *pushed) copyOf(h *metric.Histogram) *cumulative {
	c := &cumulative{count: h.Count, sum: h.Sum}
	if len(h.Bounds) == 0 {
		return c
	}
	c.counts, c.bounds = slices.Clone(h.Counts), p.bounds
	if !slices.Equal(p.bounds, h.Bounds) {
		c.bounds = slices.Clone(h.Bounds)
	}
	return c
}

// share makes the bounds of a part the newest ones, or replaces them by equal ones.
func (p *pushed) share(one *part) {
	switch {
	case len(one.bounds) == 0:
	case slices.Equal(p.bounds, one.bounds):
		one.bounds = p.bounds
	default:
		p.bounds, p.most = one.bounds, max(p.most, len(one.bounds))
	}
}

// slotLocked returns the slot of a unit. If there is none, it adds one or reuses the oldest.
func (p *pushed) slotLocked(index int, sp *window.Span, unit uint32) *pushedSlot {
	slots := p.units[index]
	at, has := window.SlotFor(slots, unit, func(s *pushedSlot) uint32 { return s.unit })
	switch {
	case has:
	case len(slots) == sp.Kept():
		slots[at] = pushedSlot{unit: unit, gain: noGain}
	default:
		if slots == nil {
			slots = make([]pushedSlot, 0, sp.Kept())
		}
		p.units[index] = append(slots, pushedSlot{unit: unit, gain: noGain})
		return &p.units[index][len(slots)]
	}
	return &slots[at]
}

// appendPart adds buckets to the part with equal bounds, or else as a new part. Beyond limit parts,
// it merges them into the last part, by the bounds of the one with more buckets.
func appendPart(parts []part, p part, limit int) []part {
	if len(p.bounds) == 0 {
		return parts
	}
	for i := range parts {
		if slices.Equal(parts[i].bounds, p.bounds) {
			addCounts(parts[i].counts, p.counts)
			return parts
		}
	}
	if len(parts) < limit {
		return append(parts, part{p.bounds, slices.Clone(p.counts)})
	}
	last := &parts[len(parts)-1]
	coarse, fine := *last, p
	if len(coarse.bounds) > len(fine.bounds) {
		coarse, fine = fine, coarse
	}
	sum := slices.Clone(fine.counts)
	addCounts(sum, coarse.regrouped(fine.bounds))
	*last = part{fine.bounds, sum}
	return parts
}

// sameBounds reports whether two parts share one slice of bounds.
func sameBounds(a, b []float64) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

func addCounts(to, counts []float64) {
	for i, n := range counts {
		to[i] = finite(to[i] + n)
	}
}

// readLocked adds the growth in the view to d.
func (p *pushed) readLocked(d *distribution, v window.View) {
	all, parts := noGain, []part(nil)
	for i := range p.units[v.Index] {
		slot := &p.units[v.Index][i]
		if slot.unit < v.FirstUnit {
			continue
		}
		if all = all.plus(slot.gain); len(slot.parts) == 0 {
			d.bare = finite(d.bare + slot.gain.count)
		}
		for _, one := range slot.parts {
			parts = appendPart(parts, one, math.MaxInt)
		}
	}
	d.addPushed(all, parts)
}

// addPushed adds the growth of histograms. It spreads each bucket's observations evenly between the
// bucket's bounds. So quantiles equal linear interpolation in the bucket, as in Prometheus'
// histogram_quantile, within RelativeError. Count and sum are separate from the bins, and exact.
func (d *distribution) addPushed(g gain, parts []part) {
	d.pushed = finite(d.pushed + g.count)
	before := d.Total
	for _, p := range parts {
		for i, n := range p.counts {
			if n > 0 {
				low, high := p.edges(i, g)
				d.spread(low, high, n)
			}
		}
	}
	d.binned = saturate(d.binned, d.Total-before)
	d.extend(g.sum, g.min, g.max)
}

// edges returns the values between which a bucket's observations are spread. The first bucket
// begins at 0, or at the minimum if that is greater; if its bound is not positive, it consists of
// the bound alone. The last bucket ends at the maximum if that is known, or else at its lower
// bound.
func (p part) edges(bucket int, g gain) (low, high float64) {
	switch {
	case bucket == len(p.bounds):
		low = p.bounds[bucket-1]
		return low, max(low, g.max)
	case bucket > 0:
		return p.bounds[bucket-1], p.bounds[bucket]
	}
	high = p.bounds[0]
	if high <= 0 {
		return high, high
	}
	return max(0, min(g.min, high)), high
}

// spread distributes n observations evenly between two edges. It rounds the cumulative share at
// each bin's end, so the weights add up exactly.
func (d *distribution) spread(low, high, n float64) {
	all := min(math.RoundToEven(n*WeightUnits), maxSpread)
	first, last := BinOf(low), BinOf(high)
	if low >= 0 {
		first = max(first, BinOf(high*leastShare))
	}
	given := 0.0
	for bin := first; bin < last; bin++ {
		share := (binEnd(bin) - low) / (high - low)
		upTo := math.RoundToEven(all * max(0, min(share, 1)))
		if upTo > given {
			d.add(bin, uint64(upTo-given))
			given = upTo
		}
	}
	if all > given {
		d.add(last, uint64(all-given))
	}
}

const (
	// maxSpread bounds the weight of a bucket, far below the largest uint64.
	maxSpread = 1 << 62
	// leastShare bounds the number of bins for a bucket that begins at 0: values below a millionth
	// of its end share a bin.
	leastShare = 1e-6
)

// binEnds are the upper ends of the bins above zero.
var binEnds = func() []float64 {
	ends := make([]float64, binsASide+1)
	for k := range ends {
		ends[k] = math.Exp(float64(k-1+lowest) / perLog)
	}
	return ends
}()

// binEnd is the highest value of a bin.
func binEnd(bin int) float64 {
	switch k := bin - zeroBin; {
	case k > 0:
		return binEnds[k]
	case k == 0:
		return smallest
	default:
		return -binEnds[-k-1]
	}
}
