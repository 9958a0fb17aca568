package kind

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// bucketTotals count the observations of a timer since its birth, for exports as a native
// histogram. They are kept if Env.Histograms is set.
//
// The buckets are those of Prometheus' schema 3: the bucket with index i holds the values in
// (2^((i-1)/8), 2^(i/8)]. A bin is counted as a whole in the bucket of its representative, so an
// observation near a bound may be in the neighbouring bucket: an error of at most RelativeError, in
// buckets that are 9 % wide.
type bucketTotals struct {
	keys    []int16  // sorted, see bucketKeys
	weights []uint64 // in WeightUnits, by key
	sum     float64  // NaN: a client did not say a part of it
}

const (
	bucketSchema = 3
	perDoubling  = 1 << bucketSchema
	// keyOffset makes the keys of positive numbers positive: key = index + keyOffset. The key of a
	// negative number is that of its magnitude, negated; the key of zero is 0.
	keyOffset = 1 << 10
)

// bucketKeys are the keys of the bins' buckets.
var bucketKeys = func() []int16 {
	keys := make([]int16, BinCount)
	for bin := range keys {
		v := BinValue(bin)
		if v == 0 {
			continue
		}
		key := int16(math.Ceil(math.Log2(math.Abs(v))*perDoubling)) + keyOffset
		if v < 0 {
			key = -key
		}
		keys[bin] = key
	}
	return keys
}()

// countLocked adds observations to the totals since the birth.
func (t *timer) countLocked(e *Env, d *distribution) {
	t.sum = finite(t.sum + d.Sum)
	if !e.Histograms {
		return
	}
	if t.buckets == nil {
		t.buckets = &bucketTotals{}
	}
	t.buckets.sum = finite(t.buckets.sum + d.Sum)
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			t.buckets.add(bucketKeys[bin], w)
		}
	}
}

// countPushedLocked is countLocked for the growth of a pushed histogram.
func (t *timer) countPushedLocked(e *Env, g gain, p part) {
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	d.reset()
	if e.Histograms && len(p.bounds) > 0 {
		d.addPushed(g, []part{p})
	} else {
		d.Sum = g.sum
	}
	t.countLocked(e, d)
}

func (b *bucketTotals) add(key int16, weight uint64) {
	at, has := slices.BinarySearch(b.keys, key)
	if !has {
		b.keys, b.weights = slices.Insert(b.keys, at, key), slices.Insert(b.weights, at, 0)
	}
	b.weights[at] = saturate(b.weights[at], weight)
}

func (b *bucketTotals) merge(other *bucketTotals) {
	b.sum = finite(b.sum + other.sum)
	for i, key := range other.keys {
		b.add(key, other.weights[i])
	}
}

func (b *bucketTotals) reset() { b.keys, b.weights, b.sum = b.keys[:0], b.weights[:0], 0 }

// bytes is the memory of the totals; of nil, 0.
func (b *bucketTotals) bytes() int64 {
	if b == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*b)) + int64(cap(b.keys))*2 + int64(cap(b.weights))*8
}

// append appends the sum, the number of buckets, and for each the distance of its key from the one
// before and its weight: observations with a bit 0, or units with a bit 1.
func (b *bucketTotals) append(dst []byte) []byte {
	dst = binary.AppendUvarint(blob.AppendFloat(dst, b.sum), uint64(len(b.keys)))
	before := int16(0)
	for i, key := range b.keys {
		dst = binary.AppendVarint(dst, int64(key-before))
		before = key
		if w := b.weights[i]; w%WeightUnits == 0 {
			dst = binary.AppendUvarint(dst, w/WeightUnits<<1)
		} else {
			dst = binary.AppendUvarint(dst, min(w, math.MaxUint64>>1)<<1|1)
		}
	}
	return dst
}

func readBucketTotals(d *blob.Decoder) *bucketTotals {
	b := &bucketTotals{sum: d.Float()}
	key := int64(0)
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		change, w := d.Varint(), d.Uvarint()
		first := len(b.keys) == 0
		if key += change; change <= 0 && !first || key < -2*keyOffset || key > 2*keyOffset {
			d.Fail()
		}
		if w&1 == 0 {
			w = min(w>>1, math.MaxUint64/WeightUnits) * WeightUnits
		} else {
			w >>= 1
		}
		b.keys, b.weights = append(b.keys, int16(key)), append(b.weights, w)
	}
	if math.IsInf(b.sum, 0) {
		d.Fail()
	}
	return b
}

// Buckets returns the totals of the timers read so far, or false if they have none. WithBuckets
// must be set.
func (r *Reader) Buckets(into *metric.Buckets) bool {
	into.Schema, into.ZeroThreshold, into.Sum, into.Zero = bucketSchema, smallest, r.buckets.sum, 0
	into.Positive, into.Negative = into.Positive[:0], into.Negative[:0]
	for i, key := range r.buckets.keys {
		count := float64(r.buckets.weights[i]) / WeightUnits
		switch {
		case key == 0:
			into.Zero = count
		case key > 0:
			into.Positive = append(into.Positive, metric.Bucket{Index: int32(key) - keyOffset, Count: count})
		default:
			into.Negative = append(into.Negative, metric.Bucket{Index: int32(-key) - keyOffset, Count: count})
		}
	}
	slices.Reverse(into.Negative)
	return len(r.buckets.keys) > 0
}

// rollLocked records the observations since the last roll in a tick and returns their weight.
func (t *timer) rollLocked(e *Env, c *Cell, tick uint32) (weight uint64) {
	fresh := distributions.Get().(*distribution)
	fresh.reset()
	t.takeLocked(&e.Timers, c, fresh)
	if weight = fresh.Total; weight != 0 {
		t.countLocked(e, fresh)
		t.recordTickLocked(e.Spans, tick, fresh)
	}
	distributions.Put(fresh)
	return weight
}

// recordTickLocked records the observations of a tick in the shortest span only. Before it drops a
// record, it folds the records into the longer spans (foldLocked); until then, readers combine
// both. A tick before the newest counts as the newest: a reader may have rolled ahead of the
// roller.
func (t *timer) recordTickLocked(spans []window.Span, tick uint32, d *distribution) {
	if t.units == nil {
		t.units = make([]timerSlots, len(spans))
	}
	fine, limit := &t.units[0], spans[0].Kept()
	unit := max(spans[0].Unit(tick), fine.newest, t.folded+1)
	switch {
	case unit == fine.newest:
		d.merge(fine.newestRecord())
	case int(fine.count) == limit && fine.oldest() > t.folded:
		t.foldLocked(spans)
	}
	fine.setNewest(unit, d.record(unit), limit)
}

// foldLocked adds records of the shortest span to the longer ones.
//
//   - D5 The longer spans include all records of the shortest span up to unit folded, which is
//     complete. Later records are in the shortest span only.
func (t *timer) foldLocked(spans []window.Span) {
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	for i := range spans[1:] {
		sp, slots := &spans[1+i], &t.units[1+i]
		unit := uint32(0)
		d.reset()
		t.units[0].each(t.folded+1, func(rec timerRecord) {
			if u := sp.Unit(spans[0].FirstTick(rec.unit)); u != unit {
				slots.fold(unit, d, sp.Kept())
				unit = u
			}
			d.merge(rec)
		})
		slots.fold(unit, d, sp.Kept())
	}
	t.folded = t.units[0].newest
}

// fold adds d to the record of a unit, which is the newest or a later one, and resets d.
func (s *timerSlots) fold(unit uint32, d *distribution, limit int) {
	if d.Total == 0 {
		return
	}
	if unit == s.newest {
		d.merge(s.newestRecord())
	}
	s.setNewest(unit, d.record(unit), limit)
	d.reset()
}

// readLocked adds all observations in the view to d. The caller rolls the timer before.
func (t *timer) readLocked(d *distribution, spans []window.Span, v window.View) {
	if t.units != nil {
		t.units[v.Index].each(v.FirstUnit, d.merge)
		if v.Index > 0 {
			first := spans[0].Unit(v.Span.FirstTick(v.FirstUnit))
			t.units[0].each(max(first, t.folded+1), d.merge)
		}
	}
	if t.pushed != nil {
		t.pushed.readLocked(d, v)
	}
}

// Weight returns the accounted memory of the timer: at least its memory with two windows full of
// records.
func (t *timer) Weight(live *TimerLive) int64 {
	const (
		slots = 2 * (window.TicksPerWindow + 1)
		full  = slots * (recordHead + timerBins/4)
	)
	n := int64(unsafe.Sizeof(timer{})) + max(t.unitBytes(), 2*slotsBytes+full)
	return n + t.liveBytes(live, leafBytes) + t.pushed.weight() + t.buckets.bytes()
}

// recordHead is the number of bytes before a record's bins if no value is a whole number.
const recordHead = 32

// unitBytes returns the memory of the records.
func (t *timer) unitBytes() (n int64) {
	for i := range t.units {
		n += slotsBytes + int64(cap(t.units[i].records))
	}
	return n
}

// liveBytes returns the memory of the live part and the tree. leaf is the memory of a leaf.
func (t *timer) liveBytes(live *TimerLive, leaf int64) (n int64) {
	if live != nil {
		n += liveBytes
	}
	if tree := t.tree.Load(); tree != nil {
		nodes, leaves := tree.count()
		n += treeBytes + nodes*nodeBytes + leaves*leaf
	}
	return n
}

// forgetLocked drops the records of an idle timer.
func (t *timer) forgetLocked() {
	t.units = nil
	if t.pushed != nil {
		clear(t.pushed.units)
	}
}

// BytesLocked returns the current memory of the timer.
func (t *timer) BytesLocked(live *TimerLive) int64 {
	n := int64(unsafe.Sizeof(timer{})) + t.unitBytes() + t.liveBytes(live, 2*leafBins*8) + t.buckets.bytes()
	if t.pushed != nil {
		n += t.pushed.bytes()
	}
	return n
}

// enterLocked adds observations of an earlier tick to the records of its units that are still kept.
func (t *timer) enterLocked(spans []window.Span, tick uint32, d *distribution) {
	fine := spans[0].Unit(tick)
	if t.units == nil || fine >= t.units[0].newest {
		t.recordTickLocked(spans, tick, d)
		return
	}
	s, limit := &t.units[0], spans[0].Kept()
	if int(s.count) == limit && s.oldest() > t.folded && !s.has(fine) {
		t.foldLocked(spans) // the shortest span is about to lose its oldest record
	}
	s.enterAt(fine, d, limit)
	if fine > t.folded {
		return // foldLocked will add it to the longer spans
	}
	for i := 1; i < len(spans); i++ {
		t.units[i].enterAt(spans[i].Unit(tick), d, spans[i].Kept())
	}
}

// has reports whether there is a record of a unit.
func (s *timerSlots) has(unit uint32) (found bool) {
	s.each(unit, func(rec timerRecord) { found = found || rec.unit == unit })
	return found
}

// enterAt adds a distribution to the record of a unit. It does nothing if the unit is too old.
func (s *timerSlots) enterAt(unit uint32, d *distribution, limit int) {
	if int(s.count) == limit && unit < s.oldest() {
		return
	}
	sum := distributions.Get().(*distribution)
	defer distributions.Put(sum)
	sum.reset()
	s.each(unit, func(rec timerRecord) {
		if rec.unit == unit {
			sum.merge(rec)
		}
	})
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			sum.add(bin, w)
		}
	}
	sum.extend(d.Sum, d.min, d.max)
	s.enter(unit, sum.record(unit), limit)
}
