package remotewrite

import "github.com/sluice-metrics/sluice/metric"

// Most series were in earlier requests with the same labels. For those, reading, checking and
// sorting the labels again is most of the work. So the Converter looks ahead: it finds where the
// labels of a few series begin and end, looks these bytes up all together, and makes the samples of
// known series without reading their labels.

// Cache is the line cache of an applier: it maps the labels of known series, as on the wire, to
// their series.
type Cache interface {
	// LookupLines looks lines up. They do not change until the next call.
	LookupLines([]metric.Line)
	// KnownKind returns the kind of the series of the i-th line, or false if the line was never
	// seen.
	KnownKind(i int) (metric.Kind, bool)
}

// mostAhead is the number of series that are looked up together.
const mostAhead = 32

// lookahead is a few series that the Converter has cut off the request and not converted yet.
type lookahead struct {
	cache   Cache // nil: all series are read
	sender  *metric.Sender
	lines   [mostAhead]metric.Line
	series  [mostAhead]skimmed
	n, next int
	looked  bool // cache knows lines
}

// UseCache makes Next look series up. Call it before the first Next and when the applier changes.
// The sender is that of the samples; it may be nil.
func (f *Converter) UseCache(c Cache, sender *metric.Sender) {
	f.ahead.cache, f.ahead.sender, f.ahead.looked = c, sender, false
}

// nextSeries advances to the next series: known, or read.
func (f *Converter) nextSeries() bool {
	a := &f.ahead
	if a.next == a.n && !f.lookAhead() {
		return false
	}
	i := a.next
	a.next++
	if e := &a.series[i]; a.looked && e.plain && !e.unknown {
		if kind, ok := a.cache.KnownKind(i); ok && kind == kindOf(e.name, e.of) && f.convertKnown(e, kind) {
			f.Known = i
			return true
		}
	}
	f.reader.read(&a.series[i])
	return true
}

// lookAhead cuts the next series off the request, and looks them up.
func (f *Converter) lookAhead() bool {
	a, r := &f.ahead, &f.reader
	r.spelled = r.spelled[:0]
	for a.n, a.next = 0, 0; a.n < mostAhead && r.cutSeries(&a.series[a.n]); a.n++ {
		if a.cache != nil {
			r.skim(&a.series[a.n], &a.lines[a.n])
			a.lines[a.n].Sender = a.sender
		}
	}
	if a.looked = a.cache != nil && a.n > 0; a.looked {
		a.cache.LookupLines(a.lines[:a.n])
	}
	return a.n > 0
}

// ReadKnown makes the next Next read the series of Sample, which was known, in full.
func (f *Converter) ReadKnown() {
	a := &f.ahead
	a.next--
	a.series[a.next].unknown = true
}

// convertKnown makes the sample of a known series. It returns false if the series has to be read,
// as for the message of a fault.
func (f *Converter) convertKnown(e *skimmed, kind metric.Kind) bool {
	v := &e.sample
	ago := f.now - v.Timestamp
	if !isServable(v.Timestamp) || ago < -maxAhead.Milliseconds() {
		return false
	}
	f.Sample = metric.Sample{Kind: kind, Dated: unixNanos(v.Timestamp)}
	switch {
	case kind == metric.Counter:
		f.Sample.Op, f.Sample.Late = metric.Accumulate, ago > lateAfter.Milliseconds()
		f.Sample.Started = unixNanos(v.Started)
	case kind == metric.Gauge && ago <= maxGaugeAge.Milliseconds():
		f.Sample.Op = metric.Assign
	default:
		return false
	}
	f.Sample.SetFloat(v.Value)
	f.Of = Counts{Samples: 1}
	return true
}

// line is the line of the series that was read last; nil if it has none.
func (a *lookahead) line() *metric.Line {
	if i := a.next - 1; a.cache != nil && a.series[i].plain {
		return &a.lines[i]
	}
	return nil
}

// drop forgets the series, which borrow from the request.
func (a *lookahead) drop() {
	clear(a.lines[:])
	clear(a.series[:])
	a.cache, a.sender, a.n, a.next, a.looked = nil, nil, 0, 0, false
}
