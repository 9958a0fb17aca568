package remotewrite

import (
	"hash/maphash"
	"math"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// Converter makes the samples of a request for the table: those of each series, in the order of the
// request, and then those of classic histograms and summaries, which are assembled from several
// series. One goroutine keeps it and uses it for request after request.
type Converter struct {
	reader Reader
	ahead  lookahead
	now    int64 // Unix milliseconds
	seed   maphash.Seed

	// Sample is the result of Next. It is borrowed until the next call, and the caller may change
	// it.
	Sample metric.Sample
	// Known is the index of Sample's line in the Cache's last LookupLines: Sample has no name and
	// no labels, because its series is known. It is -1 if the series was read.
	Known int
	// Fault replaces Sample if it has a Reason.
	Fault Fault
	// Of counts the elements of the request that Sample or Fault covers.
	Of Counts
	// Entries is the number of samples that those elements count as: the parts of one histogram are
	// one; a rejected series counts as the number of its elements.
	Entries int
	// Superseded counts the elements that need no sample, because the series ended later in the
	// request.
	Superseded Counts
	// Held counts the elements that wait for parts of the same histograms in other requests.
	Held Counts
	// Lost is the number of histograms and summaries of earlier requests that were given up: their
	// remaining parts never came.
	Lost int

	name       []byte
	kind       metric.Kind
	open       bool // the reader's series has further elements
	at         int  // index in its samples, then in its histograms
	native     Histogram
	builder    buckets.Builder
	histogram  metric.Histogram
	cumulative []buckets.Bucket

	parts  []part
	groups int // parts from here on are not converted yet
	plain  int // parts up to here stand alone
	sorted bool
	base   string // the common name of the parts whose series the reader has; may be empty
	common uint64 // the hash of those parts

	state   *SenderState // may be nil
	sender  uint64
	share   uint64
	ready   []moment // of the parts under way
	readyOf Type
	guessed bool // the kind of Sample is a guess
}

// keptParts is the capacity for parts that is kept from request to request: a part takes more
// memory than it has bytes on the wire.
const keptParts = 4096

func NewConverter(o Options) *Converter {
	return &Converter{reader: *NewReader(o), seed: maphash.MakeSeed()}
}

// Remember makes the converter use the state of a sender, from the next Reset on. The memory is of a share, whose name
// is that of all senders that one author may have.
func (f *Converter) Remember(m *SenderState, sender, share string) {
	f.state, f.seed = m, m.seed
	f.sender, f.share = maphash.String(m.seed, sender), maphash.String(m.seed, share)
}

// Reset starts a request. A Fault that has a Reason concerns the whole request.
func (f *Converter) Reset(body []byte, v Version, now time.Time) Fault {
	f.Close()
	f.now = now.UnixMilli()
	fault := f.reader.Reset(body, v)
	if f.state != nil && len(f.reader.types) > 0 {
		f.state.learnTypes(f.sender, f.share, f.reader.types, f.reader.options.MaxMetadata, f.now)
	}
	f.reader.remembered = nil
	if f.state != nil {
		f.reader.remembered = func(name string) Type { return f.state.typeOf(f.sender, name, f.now) }
	}
	return fault
}

// Close drops the request.
func (f *Converter) Close() {
	f.reader.Close()
	f.ahead.drop()
	clear(f.parts)
	if cap(f.parts) > keptParts {
		f.parts = nil
	}
	f.parts, f.groups, f.plain, f.sorted, f.open, f.at, f.base = f.parts[:0], 0, 0, false, false, 0, ""
	f.Sample, f.Fault, f.Superseded, f.Held, f.Lost = metric.Sample{}, Fault{}, Counts{}, Counts{}, 0
	f.ready, f.guessed = nil, false
}

// Next advances to the next Sample or Fault; it returns false at the end.
func (f *Converter) Next() bool {
	f.Fault, f.Entries, f.guessed, f.Known = Fault{}, 1, false, -1
	for {
		switch {
		case f.open && f.nextOfSeries():
			return true
		case f.open:
			f.open = false
		case f.sorted:
			return f.nextGroup()
		case !f.nextSeries():
			f.sortParts()
		case f.Known >= 0:
			return true
		case f.begin():
			return true
		}
	}
}

// begin starts the reader's series. It returns true if the series is rejected, with Fault set.
func (f *Converter) begin() bool {
	s := &f.reader.Series
	if f.reader.Fault.Reason == metric.Applied && len(s.Samples) > 0 && f.isPart() {
		if d := f.addParts(); d != noDetail {
			f.reader.fail(d)
		}
	}
	if f.reader.Fault.Reason != metric.Applied {
		f.Fault, f.Of = f.reader.Fault, s.Has
		f.Entries = max(1, s.Has.Samples+s.Has.Histograms)
		return true
	}
	f.kind, f.open, f.at = kindOf(s.Name, s.Type), true, lastEnd(s.Samples)
	f.Superseded.Samples += f.at
	return false
}

// kindOf is the kind of a series that is not part of a histogram or summary. Without metadata, the
// name decides, as in OpenMetrics.
func kindOf(name string, t Type) metric.Kind {
	switch {
	case t == CounterType && !strings.HasSuffix(name, "_created"), t == NoType && strings.HasSuffix(name, "_total"):
		return metric.Counter
	case (t == HistogramType || t == SummaryType || t == GaugeHistogramType) && !strings.HasSuffix(name, "_created"):
		return metric.Timer
	}
	return metric.Gauge
}

// lastEnd is the index of the last sample that ends the series: earlier samples need not be
// applied.
func lastEnd(samples []Sample) int {
	for i := len(samples) - 1; i > 0; i-- {
		if !metric.IsFinite(samples[i].Value) {
			return i
		}
	}
	return 0
}

// nextOfSeries makes the next sample of the series.
func (f *Converter) nextOfSeries() bool {
	s := &f.reader.Series
	switch i := f.at - len(s.Samples); {
	case i < 0:
		f.Of = Counts{Samples: 1}
		f.convertSample(s.Samples[f.at])
	case i < len(s.Histograms):
		f.Of = Counts{Histograms: 1}
		f.convertNative(s.Histograms[i])
	default:
		return false
	}
	f.at++
	return true
}

func (f *Converter) fail(d detail) {
	f.reader.fail(d)
	f.Fault = f.reader.Fault
}

// timing is the time of a value and the start of its total, in Unix milliseconds. End means that
// there is no value any more.
type timing struct {
	at, started int64
	end         bool
}

// prepare starts a sample named f.name and checks its time. It returns false if the sample is
// rejected. An end is never too old: the table knows whether a newer value exists.
func (f *Converter) prepare(labels []metric.Label, kind metric.Kind, when timing) bool {
	if when.started == 0 {
		when.started = f.reader.Series.created
	}
	f.Sample = metric.Sample{Name: f.name, Kind: kind, Fields: labels, Dated: unixNanos(when.at), DefaultExternal: true}
	f.Sample.Started = unixNanos(when.started)
	d := noDetail
	switch ago := f.now - when.at; {
	case !isServable(when.at):
		d = noTimestamp
	case ago < -maxAhead.Milliseconds():
		d = farAhead
	case when.end:
		f.Sample.Op = metric.MarkStale
	case kind == metric.Gauge && ago > maxGaugeAge.Milliseconds():
		d = longAgo
	case kind != metric.Gauge:
		f.Sample.Late = ago > lateAfter.Milliseconds()
	}
	if d != noDetail {
		f.fail(d)
	}
	return d == noDetail
}

// isServable reports whether a time in Unix milliseconds is one that samples can have.
func isServable(at int64) bool { return at >= 1000 && at <= math.MaxInt64/int64(time.Millisecond) }

// unixNanos converts Unix milliseconds; 0 and below are unknown.
func unixNanos(millis int64) int64 {
	if millis <= 0 {
		return 0
	}
	return time.UnixMilli(millis).UnixNano()
}

const (
	// maxAhead is how far a sender's clock may be ahead: the limit of a receiving Prometheus.
	maxAhead    = 10 * time.Minute
	maxGaugeAge = metric.MaxGaugeAge
	// lateAfter is the age from which a total counts at its own time, not now. What a sender
	// buffered while it could not reach Sluice is growth of that time, and counting all of it
	// within seconds would look like a burst. A younger total is merely slow, and belongs to the
	// windows that end now.
	lateAfter = time.Minute
)

// convertSample makes a sample of a value of the reader's series.
func (f *Converter) convertSample(v Sample) {
	s := &f.reader.Series
	f.name = append(f.name[:0], s.Name...)
	f.convertValue(s.Labels, f.kind, v)
	f.Sample.Line, f.guessed = f.ahead.line(), s.Guessed
}

// OtherKind turns a Sample of guessed kind from a counter into a gauge or back, for a name that has
// the other kind from before its type was known. It returns false if the kind is not a guess.
func (f *Converter) OtherKind() bool {
	s := &f.Sample
	switch ago := f.now - s.Date().UnixMilli(); {
	case !f.guessed:
		return false
	case s.Op == metric.Assign:
		s.Kind, s.Op, s.Late = metric.Counter, metric.Accumulate, ago > lateAfter.Milliseconds()
	case s.Op == metric.Accumulate && s.Histogram == nil && ago <= maxGaugeAge.Milliseconds():
		s.Kind, s.Op, s.Late, s.Started = metric.Gauge, metric.Assign, false, 0
	default:
		return false
	}
	return true
}

// convertValue makes a sample of a value of f.name. A number that is not finite ends the series: it
// can't be served.
func (f *Converter) convertValue(labels []metric.Label, kind metric.Kind, v Sample) {
	end := !metric.IsFinite(v.Value)
	if !f.prepare(labels, kind, timing{v.Timestamp, v.Started, end}) || end {
		return
	}
	switch kind {
	case metric.Timer:
		f.fail(strayOfHistogram)
		return
	case metric.Counter:
		f.Sample.Op = metric.Accumulate
	default:
		f.Sample.Op = metric.Assign
	}
	f.Sample.SetFloat(v.Value)
}

// convertNative makes a sample of a native histogram.
func (f *Converter) convertNative(message []byte) {
	s, h := &f.reader.Series, &f.native
	if d := f.reader.readHistogram(h, message); d != noDetail {
		f.fail(d)
		return
	}
	f.name = append(f.name[:0], s.Name...)
	if !f.prepare(s.Labels, metric.Timer, timing{h.Timestamp, h.Started, h.Stale()}) || h.Stale() {
		return
	}
	d := noDetail
	switch {
	case h.Gauge || s.Type == GaugeHistogramType:
		d = gaugeHistogram
	case h.Custom && !f.builder.SetCustom(&buckets.Custom{Bounds: h.CustomBounds, Spans: h.PositiveSpans,
		Counts: h.PositiveCounts}):
		d = badCustom
	case !h.addsUp():
		d = badTotal
	case !h.Custom && !f.builder.SetNative(&h.Native):
		d = manyBuckets
	}
	if d != noDetail {
		f.fail(d)
		return
	}
	f.builder.Fill(&f.histogram, h.Count, h.Sum)
	f.Sample.Op, f.Sample.Histogram = metric.Accumulate, &f.histogram
}

// staleMarker is the NaN that marks the end of a series (Prometheus' model/value).
const staleMarker = 0x7ff0000000000002

func isStale(v float64) bool { return math.Float64bits(v) == staleMarker }
