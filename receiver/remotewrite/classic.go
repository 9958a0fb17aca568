package remotewrite

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// sortParts brings together what belongs together, each whole in the order of its moments.
func (f *Converter) sortParts() {
	f.sorted = true
	slices.SortFunc(f.parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.at, b.at), cmp.Compare(a.role, b.role), cmp.Compare(a.bound, b.bound),
			cmp.Compare(a.number, b.number))
	})
}

// nextGroup makes a sample of the parts of one whole and moment; false at the end.
func (f *Converter) nextGroup() bool {
	for {
		switch {
		case len(f.ready) > 0:
			f.ofReady()
			return true
		case f.groups < f.plain:
			f.ofPlain()
			return true
		case f.groups == len(f.parts):
			return false
		case f.ofGroup():
			return true
		}
	}
}

// ofGroup makes a sample of the parts that come next. False: there is none yet.
func (f *Converter) ofGroup() bool {
	first, end := &f.parts[f.groups], f.groups+1
	for end < len(f.parts) && f.parts[end].base == first.base && f.parts[end].at == first.at {
		end++
	}
	f.readBase(first)
	all := f.parts[f.groups:end]
	t, known := typeOfParts(all), false
	if f.memory != nil {
		var before Type
		if before, known = f.memory.knows(f.keyOf(first)); known && t == NoType {
			t = before
		}
	}
	if t == NoType {
		f.plain = end
		return false
	}
	f.groups = end
	f.Of = Counts{Samples: len(all)}
	ended := slices.ContainsFunc(all, func(p part) bool { return p.stale })
	switch {
	case known && ended:
		f.memory.forget(f.keyOf(first))
	case f.memory != nil && !ended && f.inTime(first.at) && (known || !isWhole(all, t)) && distinct(all) && f.join(all, t):
		return false
	}
	f.ofParts(all, t)
	return true
}

func (f *Converter) keyOf(p *part) uint64 { return p.base ^ f.sender }

// inTime reports whether a moment is one that prepare takes.
func (f *Converter) inTime(at int64) bool { return at >= 1000 && at-f.now <= ahead.Milliseconds() }

// isWhole reports whether parts by themselves say what a histogram or summary says: its observations and their sum.
func isWhole(all []part, t Type) bool {
	m := instant{parts: all}
	return m.hasTotal(t) && all[len(all)-1].role == sumRole
}

// distinct reports whether no part is there twice, which ofParts refuses.
func distinct(all []part) bool {
	for i := 1; i < len(all); i++ {
		if all[i].slot() == all[i-1].slot() {
			return false
		}
	}
	return true
}

// join puts parts to those of other requests. False: they are refused by themselves.
func (f *Converter) join(all []part, t Type) bool {
	j := f.memory.join(f.keyOf(&all[0]), t, all, f.now)
	f.Lost += j.lost
	f.ready, f.readyOf = j.ready, t
	if j.refuse {
		return false
	}
	f.Held.Samples += len(all)
	return true
}

// ofReady makes a sample of a moment whose parts have come.
func (f *Converter) ofReady() {
	one := f.ready[0]
	f.ready = f.ready[1:]
	f.Of = Counts{}
	f.ofParts(one.parts, f.readyOf)
}

// ofPlain makes a sample of a count or a sum that stands for itself: nothing says that it is a part.
func (f *Converter) ofPlain() {
	one := &f.parts[f.groups]
	f.groups++
	f.Of = Counts{Samples: 1}
	f.name = append(append(f.name[:0], f.base...), suffixes[one.role]...)
	f.ofValue(f.reader.Series.Labels, metric.Gauge, Sample{one.value, one.at, one.started})
}

var suffixes = [...]string{countRole: "_count", sumRole: "_sum"}

// readBase has the reader read the series of a part, for what all parts of its whole have in common: once, however
// many moments there are of it.
func (f *Converter) readBase(one *part) {
	if f.base != "" && f.common == one.base {
		return
	}
	s := &f.reader.Series
	f.reader.read(one.message, int(one.number))
	base, r, _ := partOf(s)
	key := ""
	switch r {
	case bucketRole:
		key = boundLabel
	case quantileRole:
		key = quantileLabel
	}
	s.Labels = slices.DeleteFunc(s.Labels, func(l metric.Label) bool { return l.Key == key })
	f.base, f.common = base, one.base
}

// typeOfParts is what the parts are of; NoType: counts and sums alone, of which nobody said it.
func typeOfParts(all []part) Type {
	for i := range all {
		if all[i].of != NoType {
			return all[i].of
		}
	}
	return NoType
}

// ofParts makes the sample of a whole.
func (f *Converter) ofParts(all []part, t Type) {
	end := slices.ContainsFunc(all, func(p part) bool { return p.stale })
	f.name = append(f.name[:0], f.base...)
	if !f.prepare(f.reader.Series.Labels, metric.Timer, taken{all[0].at, startOf(all), end}) || end {
		return
	}
	f.Sample.Op, f.Sample.Histogram = metric.Accumulate, &f.histogram
	for i := 1; i < len(all); i++ {
		if all[i].role == all[i-1].role && (all[i].bound == all[i-1].bound || all[i].role >= countRole) {
			f.fail(samePoint)
			return
		}
	}
	d := noDetail
	if t == HistogramType {
		d = f.ofClassic(all)
	} else {
		d = f.ofSummary(all)
	}
	if d != noDetail {
		f.fail(d)
	}
}

func startOf(all []part) (started int64) {
	for i := range all {
		started = max(started, all[i].started)
	}
	return started
}

// ofClassic makes a histogram of its buckets and sum. That of +Inf counts all, and is the last one of a scrape: without it, others may be
// missing too.
func (f *Converter) ofClassic(all []part) detail {
	h := &f.histogram
	n := 0
	for n < len(all) && all[n].role == bucketRole {
		n++
	}
	switch {
	case n == 0:
		return valueOfHistogram
	case !math.IsInf(all[n-1].bound, 1):
		return noInfBucket
	case n-1 > f.reader.options.MaxBuckets:
		return manyBuckets
	}
	f.cumulative = f.cumulative[:0]
	for i, one := range all[:n] {
		if !metric.IsCount(one.value) {
			return badCount
		}
		if i > 0 && one.value < all[i-1].value {
			return fallingBuckets
		}
		f.cumulative = append(f.cumulative, buckets.Bucket{UpperBound: one.bound, Count: one.value})
	}
	count := all[n-1].value
	f.table.SetClassic(f.cumulative, count)
	f.table.Fill(h, count, sumOf(all))
	return noDetail
}

// sumOf is the sum among parts; NaN where there is none.
func sumOf(all []part) float64 {
	if last := &all[len(all)-1]; last.role == sumRole {
		return last.value
	}
	return math.NaN()
}

// ofSummary makes a summary of its quantiles, count and sum.
func (f *Converter) ofSummary(all []part) detail {
	h := &f.histogram
	*h = metric.Histogram{Count: -1, Sum: sumOf(all), Min: math.NaN(), Max: math.NaN(), Quantiles: h.Quantiles[:0]}
	for _, one := range all {
		switch {
		case one.role == quantileRole && len(h.Quantiles) == metric.MaxQuantiles:
			return manyQuantiles
		case one.role == quantileRole:
			h.Quantiles = append(h.Quantiles, metric.Quantile{Q: one.bound, Value: one.value})
		case one.role == countRole && !metric.IsCount(one.value):
			return badCount
		case one.role == countRole:
			h.Count = one.value
		}
	}
	if h.Count < 0 {
		return noCount
	}
	return noDetail
}
