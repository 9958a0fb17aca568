package remotewrite

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// sortParts sorts parts by histogram and time, so that those of one sample are adjacent.
func (f *Converter) sortParts() {
	f.sorted = true
	slices.SortFunc(f.parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.at, b.at), cmp.Compare(a.role, b.role),
			cmp.Compare(a.bound, b.bound),
			cmp.Compare(a.number, b.number))
	})
}

// nextGroup makes a sample of the parts of one histogram and time; it returns false at the end.
func (f *Converter) nextGroup() bool {
	for {
		switch {
		case len(f.ready) > 0:
			f.convertReady()
			return true
		case f.groups < f.plain:
			f.convertPlain()
			return true
		case f.groups == len(f.parts):
			return false
		case f.convertGroup():
			return true
		}
	}
}

// convertGroup makes a sample of the next parts. It returns false if there is none yet.
func (f *Converter) convertGroup() bool {
	first, end := &f.parts[f.groups], f.groups+1
	for end < len(f.parts) && f.parts[end].base == first.base && f.parts[end].at == first.at {
		end++
	}
	f.readBase(first)
	all := f.parts[f.groups:end]
	t, known := typeOfParts(all), false
	if f.state != nil {
		var before Type
		if before, known = f.state.assemblyType(f.keyOf(first)); known && t == NoType {
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
		f.state.forget(f.keyOf(first))
	case f.state != nil && !ended && f.inTime(first.at) && (known || !isWhole(all, t)) && distinct(all) && f.join(all, t):
		return false
	}
	f.convertParts(all, t)
	return true
}

func (f *Converter) keyOf(p *part) uint64 { return p.base ^ f.sender }

// inTime reports whether prepare accepts a time.
func (f *Converter) inTime(at int64) bool { return at >= 1000 && at-f.now <= maxAhead.Milliseconds() }

// isWhole reports whether the parts alone have the number of observations and their sum.
func isWhole(all []part, t Type) bool {
	return all[len(all)-1].role == sumRole && slices.ContainsFunc(all, func(p part) bool { return p.isTotal(t) })
}

// distinct reports whether no part is repeated; convertParts rejects repeated parts.
func distinct(all []part) bool {
	for i := 1; i < len(all); i++ {
		if all[i].key() == all[i-1].key() {
			return false
		}
	}
	return true
}

// join adds parts to those of other requests. It returns false if the parts are rejected by
// themselves.
func (f *Converter) join(all []part, t Type) bool {
	j := f.state.join(f.keyOf(&all[0]), f.share, t, all, f.now)
	f.Lost += j.lost
	f.ready, f.readyOf = j.ready, t
	if j.reject {
		return false
	}
	f.Held.Samples += len(all)
	return true
}

// convertReady makes a sample of a moment whose parts have arrived.
func (f *Converter) convertReady() {
	m := f.ready[0]
	f.ready = f.ready[1:]
	f.Of = Counts{}
	f.convertParts(m.parts, f.readyOf)
}

// convertPlain makes a sample of a count or a sum that stands alone: nothing says that it is a
// part.
func (f *Converter) convertPlain() {
	p := &f.parts[f.groups]
	f.groups++
	f.Of = Counts{Samples: 1}
	f.name = append(append(f.name[:0], f.base...), suffixes[p.role]...)
	f.convertValue(f.reader.Series.Labels, metric.Gauge, Sample{p.value, p.at, p.started})
}

var suffixes = [...]string{countRole: "_count", sumRole: "_sum"}

// readBase reads the series of a part again for the labels that all parts share: once for all
// moments.
func (f *Converter) readBase(p *part) {
	if f.base != "" && f.common == p.base {
		return
	}
	s := &f.reader.Series
	f.reader.read(&skimmed{message: p.message, number: int(p.number)})
	base, r, _ := partOf(s)
	key := ""
	switch r {
	case bucketRole:
		key = boundLabel
	case quantileRole:
		key = quantileLabel
	}
	s.Labels = slices.DeleteFunc(s.Labels, func(l metric.Label) bool { return l.Key == key })
	f.base, f.common = base, p.base
}

// typeOfParts is the type that the parts belong to; NoType: only counts and sums, of unknown type.
func typeOfParts(all []part) Type {
	for i := range all {
		if all[i].of != NoType {
			return all[i].of
		}
	}
	return NoType
}

// convertParts makes the sample of a histogram or summary.
func (f *Converter) convertParts(all []part, t Type) {
	end := slices.ContainsFunc(all, func(p part) bool { return p.stale })
	f.name = append(f.name[:0], f.base...)
	if !f.prepare(f.reader.Series.Labels, metric.Timer, timing{all[0].at, startOf(all), end}) || end {
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
		d = f.convertClassic(all)
	} else {
		d = f.convertSummary(all)
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

// convertClassic makes a histogram of the buckets and the sum. The bucket +Inf is the last one of a
// scrape: without it, others may be missing, too.
func (f *Converter) convertClassic(all []part) detail {
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
	for i, p := range all[:n] {
		if !metric.IsCount(p.value) {
			return badCount
		}
		if i > 0 && p.value < all[i-1].value {
			return fallingBuckets
		}
		f.cumulative = append(f.cumulative, buckets.Bucket{UpperBound: p.bound, Count: p.value})
	}
	count := all[n-1].value
	f.builder.SetClassic(f.cumulative, count)
	f.builder.Fill(h, count, sumOf(all))
	return noDetail
}

// sumOf is the sum among the parts; NaN without one.
func sumOf(all []part) float64 {
	if last := &all[len(all)-1]; last.role == sumRole {
		return last.value
	}
	return math.NaN()
}

// convertSummary makes a summary of the quantiles, the count and the sum.
func (f *Converter) convertSummary(all []part) detail {
	h := &f.histogram
	*h = metric.Histogram{Count: -1, Sum: sumOf(all), Min: math.NaN(), Max: math.NaN(), Quantiles: h.Quantiles[:0]}
	for _, p := range all {
		switch {
		case p.role == quantileRole && len(h.Quantiles) == metric.MaxQuantiles:
			return manyQuantiles
		case p.role == quantileRole:
			h.Quantiles = append(h.Quantiles, metric.Quantile{Q: p.bound, Value: p.value})
		case p.role == countRole && !metric.IsCount(p.value):
			return badCount
		case p.role == countRole:
			h.Count = p.value
		}
	}
	if h.Count < 0 {
		return noCount
	}
	return noDetail
}
