package kind

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
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
