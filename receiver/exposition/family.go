package exposition

import (
	"hash/maphash"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// Type is the type of a family.
type Type uint8

// The types. A family without a TYPE line is untyped.
const (
	UntypedType Type = iota
	CounterType
	GaugeType
	SummaryType
	HistogramType
	// GaugeHistogramType is a histogram of the current state: its counts may decrease from push to
	// push.
	GaugeHistogramType
)

var typeNames = [...]string{"untyped", "counter", "gauge", "summary", "histogram", "gaugehistogram"}

// IsHistogram reports whether metrics of the type have a Histogram.
func (t Type) IsHistogram() bool { return t == HistogramType || t == GaugeHistogramType }

// HasSample reports whether the text of a family of the type has samples with the name and the
// suffix.
func (t Type) HasSample(suffix string) bool {
	return t.IsHistogram() || t == SummaryType && suffix != "_bucket"
}

// sampleSuffixes end the names of a histogram's or a summary's samples.
var sampleSuffixes = [...]string{"_bucket", "_sum", "_count"}

// SampleOwner returns the family whose text has a sample of the name: "h" for "h_count" where h is
// a histogram or summary. Find returns a family's type, and whether the family exists.
func SampleOwner(name string, find func(family string) (Type, bool)) (owner string, ok bool) {
	for _, suffix := range sampleSuffixes {
		if base, has := strings.CutSuffix(name, suffix); has {
			if t, exists := find(base); exists && t.HasSample(suffix) {
				return base, true
			}
		}
	}
	return "", false
}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "invalid"
}

// IsSluices reports whether a name is one of Sluice's own metrics. A page of pushed ones has none
// of these: alerts could not tell them from what Sluice exposes of itself.
func IsSluices(name string) bool { return strings.HasPrefix(name, "sluice_") }

// TakenPrefix begins the key of a pushed label if the series has a label of that key otherwise, as in a
// scrape without honor_labels.
const TakenPrefix = "exported_"

// Family is all metrics of one name. It has at least one.
//
// A family from a reader borrows from the reader and the body: see TextReader.Read.
type Family struct {
	// Name is UTF-8, not empty and without NUL. No family has the name of another family's samples:
	// beside the histogram "h" there is no "h_bucket", "h_sum" or "h_count".
	Name string
	// Help is UTF-8 without leading blanks; empty if none was given.
	Help string
	Type Type
	// Metrics are in the order of arrival, with distinct label sets.
	Metrics []Metric
}

// Metric is a label set and its value, summary or histogram.
type Metric struct {
	// Labels are in the order of arrival, without "le" of a histogram and "quantile" of a summary.
	// Keys are distinct UTF-8, not empty, without NUL and without a leading "__"; values are UTF-8
	// and may be empty.
	Labels []metric.Label
	// Value is that of a counter, gauge or untyped metric: any float64, also for a counter.
	Value float64
	// Summary is set for summaries, Histogram for histograms and gauge histograms.
	Summary   *Summary
	Histogram *Histogram
	// Created is when a counter, summary or histogram began, in Unix nanoseconds; 0: unknown. Only
	// Protobuf is written with it: in text it would be a sample of its own. It is never read.
	Created int64
}

// Summary has quantiles that the client calculated.
type Summary struct {
	Count float64 // finite, not negative
	Sum   float64 // 0 if the client sent none
	// Quantiles are sorted and distinct.
	Quantiles []Quantile
}

// Quantile is a quantile, which is not NaN, and its value, which is NaN without observations.
type Quantile struct{ Quantile, Value float64 }

// Histogram counts observations in buckets.
type Histogram struct {
	// Count and Sum are the client's: Count may differ from the last bucket's.
	Count float64 // finite, not negative
	Sum   float64 // 0 where the client did not say
	// Buckets are sorted by bound and distinct. The last bound is +Inf.
	Buckets []Bucket
	// Native is the distribution in buckets of exponential width, or nil. Text can't express it.
	Native *Native
}

// The parts of histograms.
type (
	Bucket = buckets.Bucket
	Native = buckets.Native // of schema -4 to 8
	Span   = buckets.Span
)

// linearLimit is the number of entries up to which a linear search is cheaper than a hash.
const linearLimit = 8

// index finds entries by hash, with open addressing, at most half full. The caller compares the
// entries themselves, so equal hashes are harmless; the seed is secret, so no client can produce
// many.
type index struct {
	slots []slot // a power of two
	used  int
}

type slot struct {
	hash  uint32
	entry uint32 // 1 + the entry; 0: empty
}

var seed = maphash.MakeSeed()

func hashString(s string) uint64 { return maphash.String(seed, s) }

// reset empties the index, and shrinks it if the last body used little of it.
func (x *index) reset() {
	if x.used == 0 {
		return
	}
	if len(x.slots) > 64 && x.used < len(x.slots)/16 {
		x.slots = make([]slot, len(x.slots)/2)
	} else {
		clear(x.slots)
	}
	x.used = 0
}

// next returns an entry of the hash, and the position to continue from; ok is false if there are no
// more. A search starts at position hash.
func (x *index) next(hash, at uint32) (entry int, next uint32, ok bool) {
	if x.used == 0 {
		return 0, 0, false
	}
	mask := uint32(len(x.slots) - 1)
	for ; ; at++ {
		switch s := x.slots[at&mask]; {
		case s.entry == 0:
			return 0, 0, false
		case s.hash == hash:
			return int(s.entry - 1), at + 1, true
		}
	}
}

func (x *index) add(hash uint32, entry int) {
	if 2*(x.used+1) > len(x.slots) {
		before := x.slots
		x.slots = make([]slot, max(64, 2*len(before)))
		for _, s := range before {
			if s.entry != 0 {
				x.put(s)
			}
		}
	}
	x.put(slot{hash: hash, entry: uint32(entry + 1)})
	x.used++
}

func (x *index) put(s slot) {
	mask := uint32(len(x.slots) - 1)
	at := s.hash
	for x.slots[at&mask].entry != 0 {
		at++
	}
	x.slots[at&mask] = s
}

// slabList is a growing list within a slab that it shares with other lists, so that the memory of a
// grown slab suffices for a body of any shape. The last list of a slab grows in place. Any other
// list moves to the end, with spare capacity: as with append, each element is copied a bounded
// number of times on average.
type slabList struct{ at, length, capacity int32 }

// view returns the list's elements; they are valid until the list grows.
func view[T any](slab []T, r slabList) []T {
	end := r.at + r.length
	return slab[r.at:end:end]
}

// insert puts an element before the i-th of the list, and returns the slab.
func insert[T any](slab []T, r *slabList, i int, element T) []T {
	if r.length == r.capacity {
		slab = makeRoom(slab, r)
	}
	r.length++
	elements := slab[r.at : r.at+r.length]
	copy(elements[i+1:], elements[i:])
	elements[i] = element
	return slab
}

func makeRoom[T any](slab []T, r *slabList) []T {
	var none T
	if int(r.at+r.capacity) == len(slab) {
		r.capacity++
		return append(slab, none)
	}
	more := r.capacity
	if r.capacity == 0 {
		more = 1
	}
	at := int32(len(slab))
	slab = append(slab, slab[r.at:r.at+r.length]...)
	for range more {
		slab = append(slab, none)
	}
	r.at, r.capacity = at, r.length+more
	return slab
}
