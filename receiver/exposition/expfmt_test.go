package exposition

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sluice-metrics/sluice/metric"
)

// ours are the faults that expfmt does not have: what it takes there, doc.go says in "Differences".
var ours = map[detail]bool{
	timestamp: true, nulInName: true, reservedLabel: true, sameKey: true, sameSeries: true, samePoint: true, namesClash: true,
	bareHistogram: true, noBound: true, noQuantile: true, badBound: true, badQuantile: true, strayBound: true,
	badCount: true, fallingBuckets: true, countBelowBucket: true, noCount: true,
	noName: true, unquotedName: true,
	manyFamilies: true, manyMetrics: true, manyLabels: true, manyLabelBytes: true, manyBuckets: true, longLine: true,
}

// readExpfmt reads what expfmt reads. It does not take blanks behind the last token, nor a missing
// final newline: those are mended before. ok is false where it panics, or mixes up lines: names
// within braces are resolved by it only after it has looked at the type of the line before.
func readExpfmt(body []byte) (families map[string]*dto.MetricFamily, err error, ok bool) {
	var mended []byte
	braces := false
	for _, line := range bytes.Split(body, []byte("\n")) {
		comment := bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#"))
		braces = braces || bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("{"))
		if !comment || endsInType(line) {
			line = bytes.TrimRight(line, " \t")
		}
		mended = append(append(mended, line...), '\n')
	}
	lower := bytes.ToLower(body)
	if braces && (bytes.Contains(lower, []byte("summary")) || bytes.Contains(lower, []byte("histogram"))) {
		return nil, nil, false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err = p.TextToMetricFamilies(bytes.NewReader(mended))
	return families, err, true
}

func endsInType(line []byte) bool {
	fields := bytes.Fields(line)
	if len(fields) == 0 || !bytes.Contains(line, []byte("TYPE")) {
		return false
	}
	_, ok := parseType(fields[len(fields)-1])
	return ok
}

// quirk says that expfmt takes a text by accident: quotes within a name, a backslash in a type,
// small letters of other alphabets in a type.
func quirk(body []byte, fault Fault) bool {
	line := bytes.Split(body, []byte("\n"))[max(fault.Line-1, 0)]
	switch fault.detail {
	case badCharacter, noEquals, badName:
		return bytes.Contains(line, []byte(`"`))
	case badType:
		return bytes.Contains(line, []byte(`\`)) || bytes.ContainsFunc(line, func(r rune) bool { return r > 127 })
	}
	return false
}

// FuzzExpfmt holds the reader against expfmt's: what either takes, the other takes with the same
// meaning, but for what is listed.
func FuzzExpfmt(f *testing.F) {
	for _, c := range legal {
		f.Add([]byte(c.body))
	}
	for _, c := range illegal {
		f.Add([]byte(c.body))
	}
	f.Add([]byte(manyFamiliesBody(12, 12)))
	r := NewTextReader(DefaultOptions())
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		families, fault := r.Read(body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was written to")
		}
		checkFault(t, body, fault)
		theirs, err, ok := readExpfmt(body)
		switch {
		case !ok:
		case fault.Reason == metric.Applied && err != nil:
			t.Fatalf("%q: expfmt says %v", body, err)
		case fault.Reason == metric.Applied:
			compare(t, families, theirs)
		case err == nil && !ours[fault.detail] && !quirk(body, fault):
			t.Fatalf("%q: %v, but expfmt takes it", body, fault)
		}
	})
}

func checkFault(t *testing.T, body []byte, fault Fault) {
	if fault.Reason == metric.Applied {
		return
	}
	all := bytes.Split(body, []byte("\n"))
	if fault.Line < 1 || fault.Line > len(all) || fault.Column < 1 || fault.Column > len(all[fault.Line-1])+1 {
		t.Fatalf("%q: fault at %d:%d", body, fault.Line, fault.Column)
	}
	if text := fault.Explain(); text == "" || len(text) > 512 || strings.HasPrefix(text, "it was refused") || text == "nothing is wrong" {
		t.Fatalf("%q: detail %d is worded %q", body, fault.detail, text)
	}
}

func compare(t *testing.T, families []Family, theirs map[string]*dto.MetricFamily) {
	if len(families) != len(theirs) {
		t.Fatalf("%d families, expfmt has %d", len(families), len(theirs))
	}
	for _, f := range families {
		for i := range f.Metrics { // it cuts a summary's count off to an integer
			if s := f.Metrics[i].Summary; s != nil {
				s.Count = math.Trunc(min(s.Count, 1<<63))
			}
			if s := theirs[f.Name].GetMetric()[i].Summary; s != nil && s.GetSampleCount() > 1<<63 {
				*s.SampleCount = 1 << 63
			}
		}
		if got, want := describe([]Family{f}), describe([]Family{fromExpfmt(theirs[f.Name])}); got != want {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
	}
}

// fromExpfmt makes of expfmt's family what ours should be.
func fromExpfmt(in *dto.MetricFamily) Family {
	types := map[dto.MetricType]Type{
		dto.MetricType_COUNTER: CounterType, dto.MetricType_GAUGE: GaugeType, dto.MetricType_UNTYPED: UntypedType,
		dto.MetricType_SUMMARY: SummaryType, dto.MetricType_HISTOGRAM: HistogramType, dto.MetricType_GAUGE_HISTOGRAM: GaugeHistogramType,
	}
	f := Family{Name: in.GetName(), Help: help(in.GetHelp()), Type: types[in.GetType()]}
	for _, m := range in.Metric {
		one := Metric{}
		switch f.Type {
		case CounterType:
			one.Value = m.GetCounter().GetValue()
		case GaugeType:
			one.Value = m.GetGauge().GetValue()
		case UntypedType:
			one.Value = m.GetUntyped().GetValue()
		case SummaryType:
			one.Summary = fromSummary(m.Summary)
		case HistogramType, GaugeHistogramType:
			one.Histogram = fromHistogram(m.Histogram)
		}
		for _, l := range m.Label {
			one.Labels = append(one.Labels, metric.Label{Key: l.GetName(), Value: l.GetValue()})
		}
		f.Metrics = append(f.Metrics, one)
	}
	return f
}

func fromSummary(in *dto.Summary) *Summary {
	s := &Summary{Count: float64(in.GetSampleCount()), Sum: in.GetSampleSum()}
	for _, q := range in.Quantile {
		s.Quantiles = append(s.Quantiles, Quantile{q.GetQuantile(), q.GetValue()})
	}
	slices.SortFunc(s.Quantiles, func(a, b Quantile) int { return cmp.Compare(a.Quantile, b.Quantile) })
	return s
}

func fromHistogram(in *dto.Histogram) *Histogram {
	h := &Histogram{Count: override(in.GetSampleCount(), in.GetSampleCountFloat()), Sum: in.GetSampleSum()}
	for _, b := range in.Bucket {
		h.Buckets = append(h.Buckets, Bucket{UpperBound: b.GetUpperBound(), Count: override(b.GetCumulativeCount(), b.GetCumulativeCountFloat())})
	}
	slices.SortFunc(h.Buckets, func(a, b Bucket) int { return cmp.Compare(a.UpperBound, b.UpperBound) })
	hasInf := len(h.Buckets) > 0 && math.IsInf(h.Buckets[len(h.Buckets)-1].UpperBound, 1)
	switch {
	case !hasInf:
		h.Buckets = append(h.Buckets, Bucket{UpperBound: math.Inf(1), Count: h.Count})
	case in.SampleCount == nil && in.SampleCountFloat == nil:
		h.Count = h.Buckets[len(h.Buckets)-1].Count
	}
	return h
}

// manyFamiliesBody has enough of everything for the indexes to be used.
func manyFamiliesBody(families, metrics int) string {
	var b strings.Builder
	for m := range metrics {
		for f := range families {
			fmt.Fprintf(&b, "f%d{m=\"%d\",all=\"x\"} %d\n", f, m, m)
		}
	}
	return b.String()
}

// The differences from expfmt that doc.go lists. If expfmt changes, the list must change.
func TestDifferencesFromExpfmt(t *testing.T) {
	for _, c := range []struct{ name, body, want, theirs string }{
		{"blanks at the end of a line", "# TYPE a gauge \na 1 \n", "gauge a: 1", "error"},
		{"no final newline", "a 1", "untyped a: 1", "error"},
		{"empty braces", "{} 1\n", "1:1", "panic"},
		{"labels without a name", "a 1\n{b=\"c\"} 2\n", "2:1", "untyped a: b=c 2; b=c 2"},
		{"name in braces, of a summary", "# TYPE s summary\na 1\n{\"s_sum\",b=\"c\"} 2\n", "summary s: b=c sum 2 count 0\nuntyped a: 1", "panic"},
		{"name in braces without quotes", "{a} 1\n", "1:2", "untyped a: 1"},
		{"quotes within a name", "a\"b\" 1\n", "1:2", "untyped ab: 1"},
		{"backslash in a type", "# TYPE a co\\unter\na 1\n", "1:10", "counter a: 1"},
		{"fraction of a count", "# TYPE s summary\ns_count 1.5\n", "summary s: sum 0 count 1.5", "summary s: sum 0 count 1"},
		{"le twice", "# TYPE h histogram\nh_bucket{le=\"1\",le=\"+Inf\"} 1\n", "2:17", "histogram h: sum 0 count 1 le+Inf:1"},
		{"le on a sum", "# TYPE h histogram\nh_count 1\nh_sum{le=\"1\"} 1\n", "3:10", "histogram h: sum 1 count 1 le+Inf:1"},
		{"a histogram's own name", "# TYPE h histogram\nh{le=\"+Inf\"} 1\n", "2:1", "histogram h: sum 0 count 1 le+Inf:1"},
		{"no le", "# TYPE h histogram\nh_count 1\nh_bucket 1\n", "3:1", "histogram h: sum 0 count 1 le+Inf:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			families, fault := NewTextReader(DefaultOptions()).Read([]byte(c.body))
			got := strings.TrimSuffix(describe(families), "\n")
			if fault.Reason != metric.Applied {
				got = fmt.Sprintf("%d:%d", fault.Line, fault.Column)
			}
			if theirs := byExpfmt(c.body); got != c.want || theirs != c.theirs {
				t.Errorf("got %s, want %s; expfmt says %s, want %s", got, c.want, theirs, c.theirs)
			}
		})
	}
}

// byExpfmt is what expfmt makes of a body as it is.
func byExpfmt(body string) (said string) {
	defer func() {
		if recover() != nil {
			said = "panic"
		}
	}()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		return "error"
	}
	var all []Family
	for _, f := range families {
		all = append(all, fromExpfmt(f))
	}
	return strings.TrimSuffix(describe(all), "\n")
}
