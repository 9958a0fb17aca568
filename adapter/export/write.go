package export

import (
	"io"
	"math"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

const (
	// metricsAtOnce are converted, then written.
	metricsAtOnce = 256
	// pieceBytes are written at once, at least.
	pieceBytes = 32 << 10
)

// writer writes a page, family by family.
type writer struct {
	to      io.Writer
	options *Options
	names   *names
	reader  Reader
	seen    *seen
	written Written
	err     error // of to

	family    exposition.Family // its next metrics
	whole     string            // of the part (part.whole)
	begun     bool              // the family has been written in part
	set       []metric.Label    // of one metric
	labels    []metric.Label    // of the family's metrics
	summaries []exposition.Summary
	quantiles []exposition.Quantile
	text      []byte
}

// group writes the series of one exposed name.
func (w *writer) group(group []part) {
	w.family = exposition.Family{Name: group[0].name(), Type: w.names.typeOfGroup(group), Metrics: w.family.Metrics[:0]}
	if group[0].total && w.options.Format == exposition.OpenMetrics && w.names.has(group[0].base) {
		w.family.Type = exposition.UntypedType // there the counter would have the name of another family
	}
	clear(w.seen.sets)
	w.begun = false
	for i := range group {
		p := &group[i]
		w.whole = p.whole
		if w.options.Format == exposition.Protobuf {
			w.family.Type = w.options.typeOf(p.kind)
		}
		scale := 1.0
		if p.kind == metric.Timer && matchesAny(w.options.Seconds, p.family.Name) {
			scale = 1e-3
		}
		readable := w.options.Readable
		if !p.family.External() {
			readable = nil
		}
		w.reader.Series(p.family, p.kind, func(s *metric.LiveSeries) bool {
			if readable == nil || readable(p.family, p.kind, s.Labels) {
				w.add(s, p.kind, scale)
			}
			return w.err == nil
		})
		if w.err != nil {
			return
		}
		if i+1 == len(group) || group[i+1].whole != p.whole || w.names.otherType(group[i:], &group[i+1]) {
			w.appendMetrics()
		}
	}
}

// add adds a series to the family.
func (w *writer) add(s *metric.LiveSeries, k metric.Kind, scale float64) {
	w.set = w.options.appendPushed(appendObject(w.set[:0], &s.Object), s.Labels, k)
	if !w.seen.add(w.set) {
		w.written.LeftOut++
		return
	}
	first := len(w.labels)
	w.labels = append(w.labels, w.set...)
	labels := w.labels[first:len(w.labels):len(w.labels)]
	if w.whole == "" || w.family.Name == w.whole+"_sum" { // once for all its samples
		w.written.Series++
	}
	m := exposition.Metric{Labels: labels}
	if !s.Start.IsZero() {
		m.Created = s.Start.UnixNano()
	}
	switch {
	case k != metric.Timer:
		m.Value = s.Value.Float64()
	case w.options.Timers == Histograms:
		m.Histogram = histogram(&s.Buckets, scale)
	default:
		m.Summary = w.summary(&s.Summary, scale)
	}
	w.family.Metrics = append(w.family.Metrics, m)
	if len(w.family.Metrics) == metricsAtOnce {
		w.appendMetrics()
	}
}

func (w *writer) summary(s *metric.Summary, scale float64) *exposition.Summary {
	if cap(w.summaries) == 0 {
		w.summaries = make([]exposition.Summary, 0, metricsAtOnce)
	}
	first := len(w.quantiles)
	for _, q := range s.Quantiles {
		w.quantiles = append(w.quantiles, exposition.Quantile{Quantile: q.Q, Value: scaled(q.Value, scale)})
	}
	w.summaries = append(w.summaries, exposition.Summary{Count: s.Count, Sum: scaled(s.Sum, scale),
		Quantiles: w.quantiles[first:len(w.quantiles):len(w.quantiles)]})
	return &w.summaries[len(w.summaries)-1]
}

// scaled converts milliseconds to seconds, so that 12 ms are 0.012 s.
func scaled(v, scale float64) float64 {
	if scale == 1 || math.IsInf(v, 0) {
		return v
	}
	return v / 1000
}

// appendMetrics writes the converted metrics.
func (w *writer) appendMetrics() {
	if len(w.family.Metrics) == 0 {
		return
	}
	f := w.family
	if w.whole != "" {
		f.Metrics = w.samples()
	}
	if w.begun {
		w.text = exposition.AppendMore(w.text, w.options.Format, &f)
	} else {
		w.text = exposition.Append(w.text, w.options.Format, f)
	}
	w.begun = true
	w.family.Metrics, w.labels = w.family.Metrics[:0], w.labels[:0]
	w.summaries, w.quantiles = w.summaries[:0], w.quantiles[:0]
	if len(w.text) >= pieceBytes {
		w.flush()
	}
}

// samples returns those of the family's name, of the converted timers.
func (w *writer) samples() []exposition.Metric {
	timers := exposition.Family{Name: w.whole, Type: w.options.typeOf(metric.Timer), Metrics: w.family.Metrics}
	for _, plain := range exposition.Plain(&timers) {
		if plain.Name == w.family.Name {
			return plain.Metrics
		}
	}
	return nil
}

func (w *writer) flush() {
	_, w.err = w.to.Write(w.text)
	w.text = w.text[:0]
}

// histogram makes a native histogram of buckets. A scale other than 1 is that of milliseconds to
// seconds: the buckets move by the whole number of buckets that is nearest, so their bounds are off
// by up to half a bucket.
func histogram(b *metric.Buckets, scale float64) *exposition.Histogram {
	h := &exposition.Histogram{Count: b.Zero, Sum: scaled(b.Sum, scale)}
	shift := int32(0)
	if scale != 1 {
		shift = int32(math.Round(math.Log2(scale) * math.Exp2(float64(b.Schema))))
	}
	native := &exposition.Native{Schema: b.Schema, ZeroThreshold: b.ZeroThreshold * scale, ZeroCount: b.Zero}
	native.PositiveSpans, native.PositiveCounts = spans(b.Positive, shift, &h.Count)
	native.NegativeSpans, native.NegativeCounts = spans(b.Negative, shift, &h.Count)
	if len(native.PositiveSpans)+len(native.NegativeSpans) == 0 && native.ZeroCount == 0 {
		native.PositiveSpans = []exposition.Span{{}} // tells an empty native histogram from a classic one
	}
	h.Native = native
	h.Buckets = []exposition.Bucket{{UpperBound: math.Inf(1), Count: h.Count}}
	return h
}

// spans returns buckets in the form of the exposition, and adds their counts.
func spans(buckets []metric.Bucket, shift int32, count *float64) (spans []exposition.Span, counts []float64) {
	next := int32(0) // the index after the bucket before
	for i, bucket := range buckets {
		index := bucket.Index + shift
		if i == 0 || index != next {
			spans = append(spans, exposition.Span{Offset: index - next})
		}
		spans[len(spans)-1].Length++
		counts = append(counts, bucket.Count)
		*count += bucket.Count
		next = index + 1
	}
	return spans, counts
}
