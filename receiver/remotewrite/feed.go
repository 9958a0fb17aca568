package remotewrite

import (
	"hash/maphash"
	"math"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/buckets"
)

// Feed makes the samples that the table takes of a request: each series' own, in the order of the request, and then those of
// classic histograms and summaries, which are put together of several series. It is meant to be kept and used for request
// after request, by one goroutine.
type Converter struct {
	reader Reader
	now    int64 // Unix milliseconds
	seed   maphash.Seed

	// Sample is what the table is to be given. It is borrowed until the next one, and may be changed.
	Sample metric.Sample
	// Fault, if it has a Reason, is why there is no Sample.
	Fault Fault
	// Of is what of the request became Sample, or came to nothing by Fault.
	Of Counts
	// Entries is as how many samples that counts: parts of one whole are one, a series that cannot be taken is as many as it has.
	Entries int
	// Superseded is what of the request needs no sample: it has ended again within it.
	Superseded Counts
	// Held is what of the request waits for parts of the same histograms in other requests.
	Held Counts
	// Lost is how many histograms and summaries of earlier requests are given up by now: the rest of them never came.
	Lost int
	// Exemplars is how many there were so far. They are not kept.
	Exemplars int

	name       []byte
	kind       metric.Kind
	open       bool // the reader's series has more to give
	at         int  // of its samples, then of its histograms
	native     Histogram
	table      buckets.Builder
	histogram  metric.Histogram
	cumulative []buckets.Bucket

	parts  []part
	groups int // parts from here on are not made samples of yet
	plain  int // up to here each stands for itself
	sorted bool
	base   string // the name that the parts have in common whose series the reader has; empty: none
	common uint64 // their hash

	memory  *SenderState // nil: there is none
	sender  uint64
	ready   []instant // of the parts under way
	readyOf Type
	guess   bool // the kind of Sample is one
}

// keptParts is room for how many parts is kept from request to request: a part takes more memory than bytes on the wire.
const keptParts = 4096

// NewFeed makes a feed.
func NewConverter(o Options) *Converter {
	return &Converter{reader: *NewReader(o), seed: maphash.MakeSeed()}
}

// Remember has the feed use what earlier requests of a sender said. It holds from the next Reset on.
func (f *Converter) Remember(m *SenderState, sender string) {
	f.memory, f.seed = m, m.seed
	f.sender = maphash.String(m.seed, sender)
}

// Reset begins with a request that came now; see Reader.Reset.
func (f *Converter) Reset(body []byte, v Version, now time.Time) Fault {
	f.Close()
	f.now = now.UnixMilli()
	fault := f.reader.Reset(body, v)
	if f.memory != nil && len(f.reader.types) > 0 {
		f.memory.learn(f.sender, f.reader.types, f.reader.options.MaxMetadata, f.now)
	}
	f.reader.remembered = nil
	if f.memory != nil {
		f.reader.remembered = func(name string) Type { return f.memory.typeOf(f.sender, name, f.now) }
	}
	return fault
}

// Close lets go of the request.
func (f *Converter) Close() {
	f.reader.Close()
	clear(f.parts)
	if cap(f.parts) > keptParts {
		f.parts = nil
	}
	f.parts, f.groups, f.plain, f.sorted, f.open, f.at, f.base = f.parts[:0], 0, 0, false, false, 0, ""
	f.Sample, f.Fault, f.Exemplars, f.Superseded, f.Held, f.Lost = metric.Sample{}, Fault{}, 0, Counts{}, Counts{}, 0
	f.ready, f.guess = nil, false
}

// Next reads on to the next Sample or Fault; false at the end.
func (f *Converter) Next() bool {
	f.Fault, f.Entries, f.guess = Fault{}, 1, false
	for {
		switch {
		case f.open && f.nextOfSeries():
			return true
		case f.open:
			f.open = false
		case f.sorted:
			return f.nextGroup()
		case !f.reader.Next():
			f.sortParts()
		case f.begin():
			return true
		}
	}
}

// begin begins with the reader's series. True: it cannot be taken, by Fault.
func (f *Converter) begin() bool {
	s := &f.reader.Series
	f.Exemplars += s.Exemplars
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

// kindOf is what a series' values are, of one that is no part of a histogram or summary. Where nobody says, the name does, as
// OpenMetrics has it.
func kindOf(name string, t Type) metric.Kind {
	switch {
	case t == CounterType && !strings.HasSuffix(name, "_created"), t == NoType && strings.HasSuffix(name, "_total"):
		return metric.Counter
	case (t == HistogramType || t == SummaryType || t == GaugeHistogramType) && !strings.HasSuffix(name, "_created"):
		return metric.Timer
	}
	return metric.Gauge
}

// lastEnd is where the last sample is that says that there is no value: what is before it was never to be seen.
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
		f.ofSample(s.Samples[f.at])
	case i < len(s.Histograms):
		f.Of = Counts{Histograms: 1}
		f.ofNative(s.Histograms[i])
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

// taken is when a value was so, in Unix milliseconds. An end says that there is none.
type taken struct {
	at, started int64
	end         bool
}

// prepare begins a sample of f.name, and holds its time against now. False: it is refused. An end is never too old: the table
// knows whether a newer value came.
func (f *Converter) prepare(labels []metric.Label, kind metric.Kind, when taken) bool {
	if when.started == 0 {
		when.started = f.reader.Series.created
	}
	f.Sample = metric.Sample{Name: f.name, Kind: kind, Fields: labels, Timestamp: when.at / 1000, DefaultExternal: true}
	if when.started > 0 {
		f.Sample.Started = time.UnixMilli(when.started).UnixNano()
	}
	d := noDetail
	switch ago := f.now - when.at; {
	case when.at < 1000 || when.at > math.MaxInt64/int64(time.Millisecond):
		d = noTimestamp
	case ago < -ahead.Milliseconds():
		d = farAhead
	case when.end:
		f.Sample.Op = metric.MarkStale
	case kind == metric.Gauge && ago > past.Milliseconds():
		d = longAgo
	case kind != metric.Gauge:
		f.Sample.Late = ago > backlog.Milliseconds()
	}
	if d != noDetail {
		f.fail(d)
	}
	return d == noDetail
}

const (
	// ahead is by how much a clock may be ahead of ours, as a Prometheus that receives has it.
	ahead = 10 * time.Minute
	past  = metric.MaxGaugeAge
	// backlog is how old a total is that counts when it was taken, not now: what a sender has kept while it could not
	// reach us is growth of then, and all of it within seconds would look like a burst. Below that a sender is merely slow,
	// and what it says last should be in the windows that end now.
	backlog = time.Minute
)

// ofSample makes a sample of a value of the reader's series.
func (f *Converter) ofSample(v Sample) {
	s := &f.reader.Series
	f.name = append(f.name[:0], s.Name...)
	f.ofValue(s.Labels, f.kind, v)
	f.guess = s.Guessed
}

// OtherKind turns the Sample into what else it may be, where the request does not tell: a counter into a gauge, or the other
// way round. False: it is nothing else. It is for a name that has the other kind already, from before its type was known.
func (f *Converter) OtherKind() bool {
	s := &f.Sample
	switch ago := f.now - s.Timestamp*1000; {
	case !f.guess:
		return false
	case s.Op == metric.Assign:
		s.Kind, s.Op, s.Late = metric.Counter, metric.Accumulate, ago > backlog.Milliseconds()
	case s.Op == metric.Accumulate && s.Histogram == nil && ago <= past.Milliseconds():
		s.Kind, s.Op, s.Late, s.Started = metric.Gauge, metric.Assign, false, 0
	default:
		return false
	}
	return true
}

// ofValue makes a sample of a value of f.name. What is no finite number, whatever it is, cannot be served.
func (f *Converter) ofValue(labels []metric.Label, kind metric.Kind, v Sample) {
	end := !metric.IsFinite(v.Value)
	if !f.prepare(labels, kind, taken{v.Timestamp, v.Started, end}) || end {
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

// ofNative makes a sample of a native histogram.
func (f *Converter) ofNative(message []byte) {
	s, h := &f.reader.Series, &f.native
	if d := f.reader.readHistogram(h, message); d != noDetail {
		f.fail(d)
		return
	}
	f.name = append(f.name[:0], s.Name...)
	if !f.prepare(s.Labels, metric.Timer, taken{h.Timestamp, h.Started, h.Stale()}) || h.Stale() {
		return
	}
	d := noDetail
	switch {
	case h.Gauge || s.Type == GaugeHistogramType:
		d = gaugeHistogram
	case h.Custom && !f.table.SetCustom(&buckets.Custom{Bounds: h.CustomBounds, Spans: h.PositiveSpans, Counts: h.PositiveCounts}):
		d = badCustom
	case !h.addsUp():
		d = badTotal
	case !h.Custom && !f.table.SetNative(&h.Native):
		d = manyBuckets
	}
	if d != noDetail {
		f.fail(d)
		return
	}
	f.table.Fill(&f.histogram, h.Count, h.Sum)
	f.Sample.Op, f.Sample.Histogram = metric.Accumulate, &f.histogram
}

// staleMarker is the one NaN that says that a series has ended (Prometheus' model/value).
const staleMarker = 0x7ff0000000000002

func isStale(v float64) bool { return math.Float64bits(v) == staleMarker }
