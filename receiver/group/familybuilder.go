package group

import (
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// The families that every group has of its own. Pushed families of these names are ignored.
const (
	pushTime    = "push_time_seconds"
	failureTime = "push_failure_time_seconds"
)

func isOwn(name string) bool { return name == pushTime || name == failureTime }

// familyBuilder makes the group's own families from those of a body: with the grouping labels, in
// memory that stays.
type familyBuilder struct {
	grouping []metric.Label // sorted
	about    *metric.Object
	series   sampleBuilder
	row      []metric.Label // merged labels of all metrics of a family, one after the other
	ends     []int
	packed   []byte
	text     []byte
	pieces   []piece
	seen     map[string]struct{}

	update tableUpdate // the next step, in the same pooled memory
}

var builders = sync.Pool{New: func() any { return &familyBuilder{seen: map[string]struct{}{}} }}

func (m *familyBuilder) begin(k Key, about *metric.Object) {
	m.grouping, m.about = m.grouping[:0], about
	for key, value := range k.Labels.All() {
		m.grouping = append(m.grouping, metric.Label{Key: key, Value: value})
	}
}

// end drops borrowed memory.
func (m *familyBuilder) end() {
	clear(m.grouping[:cap(m.grouping)])
	clear(m.row[:cap(m.row)])
	clear(m.seen)
	m.about = nil
	m.series.end()
	m.text, m.pieces = m.text[:0], m.pieces[:0]
	m.update.end()
	const kept = 1 << 14
	if cap(m.row) > kept || len(m.seen) > kept {
		*m = familyBuilder{seen: map[string]struct{}{}}
	}
	builders.Put(m)
}

// instance is a label of every metric, as in a Pushgateway: Prometheus would otherwise add the one
// of its target.
const instance = "instance"

// family builds one family. Old is the group's family of that name; equal labels are shared with
// it.
func (m *familyBuilder) family(in *exposition.Family, old *family, now int64) (*family, *Rejection) {
	m.row, m.ends = m.row[:0], m.ends[:0]
	mayCollide := false
	for i := range in.Metrics {
		mayCollide = m.labels(in.Metrics[i].Labels) || mayCollide
	}
	if r := m.check(in, mayCollide); r != nil {
		return nil, r
	}
	f := newFamily(in.Type, len(in.Metrics), now)
	if m.sameAs(old) {
		f.Name, f.Help = old.Name, old.Help
		if in.Help != old.Help {
			f.Help = strings.Clone(in.Help)
		}
		for i := range f.Metrics {
			f.Metrics[i].Labels = old.Metrics[i].Labels
		}
	} else {
		m.copyTo(f, in)
	}
	f.bytes = int64(unsafe.Sizeof(*f)) + int64(len(f.Name)+len(f.Help))
	for i := range in.Metrics {
		f.copyMetric(i, &in.Metrics[i])
		f.addSize(i)
	}
	return f, nil
}

// labels appends a metric's labels with the grouping labels, which override, sorted. It reports
// whether the metric may have become equal to another one.
func (m *familyBuilder) labels(own []metric.Label) (mayCollide bool) {
	start, hasInstance := len(m.row), false
	for _, l := range own {
		if has(m.grouping, l.Key) {
			mayCollide = true
			continue
		}
		if l.Key == instance {
			hasInstance = true
			mayCollide = mayCollide || l.Value == ""
		}
		mayCollide = mayCollide || l.Key == ObjectLabel || l.Key == NamespaceLabel
		m.row = append(m.row, l)
	}
	m.row = append(m.row, m.grouping...)
	if !hasInstance && !has(m.grouping, instance) {
		m.row = append(m.row, metric.Label{Key: instance})
	}
	row := m.row[start:]
	for i := 1; i < len(row); i++ { // mostly two short sorted runs
		for j := i; j > 0 && row[j].Key < row[j-1].Key; j-- {
			row[j], row[j-1] = row[j-1], row[j]
		}
	}
	m.ends = append(m.ends, len(m.row))
	return mayCollide
}

func has(labels []metric.Label, key string) bool {
	return slices.ContainsFunc(labels, func(l metric.Label) bool { return l.Key == key })
}

func (m *familyBuilder) rowOf(i int) []metric.Label {
	start := 0
	if i > 0 {
		start = m.ends[i-1]
	}
	return m.row[start:m.ends[i]]
}

// check finds damage by the grouping labels: two metrics that became equal, also as series of the table, and a
// histogram whose buckets would lose their bounds.
func (m *familyBuilder) check(in *exposition.Family, mayCollide bool) *Rejection {
	switch {
	case in.Type.IsHistogram() && has(m.grouping, "le"):
		return reject(metric.Malformed, `%q is a histogram; its group must not have a label "le"`, in.Name)
	case in.Type == exposition.SummaryType && has(m.grouping, "quantile"):
		return reject(metric.Malformed, `%q is a summary; its group must not have a label "quantile"`, in.Name)
	case !mayCollide || len(in.Metrics) == 1:
		return nil
	}
	clear(m.seen)
	for i := range in.Metrics {
		row := m.series.seriesLabels(m.about, m.rowOf(i))
		m.packed = metric.AppendLabels(m.packed[:0], row)
		if _, twice := m.seen[string(m.packed)]; twice {
			return reject(metric.Malformed, "%q has twice the labels %s, once the grouping labels replace those of the body and "+
				"without those that name the object", in.Name, metric.NewLabels(slices.Clone(row)))
		}
		m.seen[string(m.packed)] = struct{}{}
	}
	return nil
}

func (m *familyBuilder) sameAs(old *family) bool {
	if old == nil || len(old.Metrics) != len(m.ends) {
		return false
	}
	for i := range m.ends {
		if !slices.Equal(old.Metrics[i].Labels, m.rowOf(i)) {
			return false
		}
	}
	return true
}

// copyTo sets the family's name, help and labels, in two allocations. A key or value that the
// metric before has at the same position is stored once: that mostly includes the grouping labels.
func (m *familyBuilder) copyTo(f *family, in *exposition.Family) {
	m.text = append(append(m.text[:0], in.Name...), in.Help...)
	m.pieces = m.pieces[:0]
	for i := range m.ends {
		row, before, start := m.rowOf(i), []metric.Label(nil), len(m.pieces)
		if i > 0 {
			before = m.rowOf(i - 1)
		}
		for j, l := range row {
			same := piece{at: -1}
			if j < len(before) {
				same = m.pieces[start-len(before)+j]
			}
			switch {
			case same.at < 0 || before[j].Key != l.Key:
				m.pieces = append(m.pieces, m.piece(l))
			case before[j].Value != l.Value:
				p := m.piece(metric.Label{Value: l.Value})
				m.pieces = append(m.pieces, piece{same.at, same.key, p.valueAt, p.value})
			default:
				m.pieces = append(m.pieces, same)
			}
		}
	}
	text := string(m.text)
	f.Name, f.Help = text[:len(in.Name)], text[len(in.Name):][:len(in.Help)]
	labels := make([]metric.Label, len(m.row))
	for i, p := range m.pieces {
		labels[i] = metric.Label{Key: text[p.at:][:p.key], Value: text[p.valueAt:][:p.value]}
	}
	start := 0
	for i, end := range m.ends {
		f.Metrics[i].Labels = labels[start:end:end]
		start = end
	}
}

// piece is the position of a label in the text.
type piece struct{ at, key, valueAt, value int }

func (m *familyBuilder) piece(l metric.Label) piece {
	at := len(m.text)
	m.text = append(append(m.text, l.Key...), l.Value...)
	return piece{at, len(l.Key), at + len(l.Key), len(l.Value)}
}

// copyMetric copies the values of a metric.
func (f *family) copyMetric(i int, in *exposition.Metric) {
	m := &f.Metrics[i]
	m.Value = in.Value
	if in.Summary != nil {
		s := *in.Summary
		s.Quantiles = slices.Clone(s.Quantiles)
		m.Summary = &s
	}
	if in.Histogram != nil {
		h := *in.Histogram
		h.Buckets = slices.Clone(h.Buckets)
		m.Histogram = &h // Native is immutable
	}
}

// addSize adds a metric's memory. Labels that are shared with the group's older family count each
// time.
func (f *family) addSize(i int) {
	m := &f.Metrics[i]
	n := int64(unsafe.Sizeof(*m))
	for _, l := range m.Labels {
		n += int64(unsafe.Sizeof(l)) + int64(len(l.Key)+len(l.Value))
	}
	if s := m.Summary; s != nil {
		n += int64(unsafe.Sizeof(*s)) + int64(len(s.Quantiles))*int64(unsafe.Sizeof(exposition.Quantile{}))
	}
	if h := m.Histogram; h != nil {
		n += int64(unsafe.Sizeof(*h)) + int64(len(h.Buckets))*int64(unsafe.Sizeof(exposition.Bucket{}))
		if h.Native != nil {
			n += int64(unsafe.Sizeof(*h.Native)) + 8*int64(len(h.Native.PositiveSpans)+len(h.Native.NegativeSpans)+
				len(h.Native.PositiveCounts)+len(h.Native.NegativeCounts))
		}
	}
	f.bytes += n
}
