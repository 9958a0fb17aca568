package exposition

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// Around the number from which indexes are used, everything is found at every moment.
func TestFewOrMany(t *testing.T) {
	r := NewTextReader(DefaultOptions())
	for n := 1; n < 3*linearLimit; n++ {
		var families, metrics string
		for i := range n {
			families += fmt.Sprintf("f%d 1\n", i)
			metrics += fmt.Sprintf("m{i=\"%d\",j=\"0\"} 1\n", i)
		}
		for i := range n {
			if _, fault := r.Read(fmt.Appendf(nil, "%sf%d 2", families, i)); fault.detail != sameSeries || fault.Line != n+1 {
				t.Errorf("family %d of %d is not found: %v", i, n, fault)
			}
			if _, fault := r.Read(fmt.Appendf(nil, "%sm{j=\"0\",i=\"%d\"} 2", metrics, i)); fault.detail != sameSeries || fault.Line != n+1 {
				t.Errorf("metric %d of %d is not found: %v", i, n, fault)
			}
		}
	}
}

// Of so many names and series, some have the same hash: with 32 bits, ten pairs are to be expected
// of each.
func TestSameHash(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and 600,000 lines")
	}
	const n = 300_000
	var families, metrics []byte
	for i := range n {
		families = fmt.Appendf(families, "f%d 1\n", i)
		metrics = fmt.Appendf(metrics, "m{i=\"%d\"} 1\n", i)
	}
	options := DefaultOptions()
	options.MaxFamilies, options.MaxMetrics = n, n
	r := NewTextReader(options)
	if got, fault := r.Read(families); len(got) != n {
		t.Error(fault)
	}
	if got, fault := r.Read(metrics); len(got) != 1 || len(got[0].Metrics) != n {
		t.Error(fault)
	}
}

// The same body needs no more memory the hundredth time, and labels are kept once for each metric.
func TestMemoryIsUsedAgain(t *testing.T) {
	body := []byte(pushedHistograms() + lines(`a{b="\\"} 1`) + manyFamiliesBody(20, 20))
	r := NewTextReader(DefaultOptions())
	size := func() string {
		return fmt.Sprint(cap(r.labels), cap(r.escaped), cap(r.metrics), cap(r.compounds), cap(r.points), cap(r.histograms), cap(r.buckets), cap(r.quantiles),
			len(r.names.slots), len(r.series.slots))
	}
	r.Read(body)
	before := size()
	for range 100 {
		r.Read(body)
	}
	if after := size(); after != before || len(r.labels) != 2*2+1+20*20*2 {
		t.Errorf("grew from %s to %s, with %d labels", before, after, len(r.labels))
	}
}

// A histogram among many, whose samples stand apart.
func TestManyHistograms(t *testing.T) {
	const histograms = 50
	var body strings.Builder
	body.WriteString("# TYPE h histogram\n")
	for _, sample := range []string{`h_bucket{i="%d",le="1"} 1`, `h_bucket{i="%d",le="5"} 5`, `h_bucket{i="%d",le="3"} 2`, `h_sum{i="%d"} 7`, `h_count{i="%d"} 9`} {
		for i := range histograms {
			fmt.Fprintf(&body, sample+"\n", i)
		}
	}
	got, fault := NewTextReader(DefaultOptions()).Read([]byte(body.String()))
	if fault.Reason != metric.Applied || len(got) != 1 || len(got[0].Metrics) != histograms {
		t.Fatal(got, fault)
	}
	for i, m := range got[0].Metrics {
		one := describe([]Family{{Name: "h", Type: HistogramType, Metrics: []Metric{m}}})
		if want := fmt.Sprintf("histogram h: i=%d sum 7 count 9 le1:1 le3:2 le5:5 le+Inf:9\n", i); one != want {
			t.Fatalf("got %s\nwant %s", one, want)
		}
	}
}

// An earlier body does not affect the result of a later one.
func TestReadForgets(t *testing.T) {
	r := NewTextReader(DefaultOptions())
	for _, body := range []string{
		lines("# HELP a x", "# TYPE a histogram", `a_bucket{b="\\",le="1"} 1`, `a_count{b="\\"} 2`, "c 1"),
		lines("# TYPE a summary", `a{quantile="1"} 1`, "a_sum 3", "bad"),
	} {
		r.Read([]byte(body))
		got, fault := r.Read([]byte("a_count 1\na 2\n"))
		if describe(got) != "untyped a_count: 1\nuntyped a: 2\n" || fault != (Fault{}) {
			t.Errorf("after %q: %s, %v", body, describe(got), fault)
		}
	}
}

// However a text is arranged, it costs a bounded number of times its length.
func TestTextIsBounded(t *testing.T) {
	const size = 4 << 20
	var turns strings.Builder
	turns.WriteString("# TYPE h histogram\n")
	for i := 0; turns.Len() < size; i++ {
		fmt.Fprintf(&turns, "h_bucket{a=\"%d\",le=\"%d\"} 1\n", i%1000, i/1000)
	}
	for name, body := range map[string]string{
		"buckets here and there": turns.String(),
		"metrics here and there": manyFamiliesBody(1000, 10),
		"families of no samples": strings.Repeat("# HELP a x\n", size/11),
		"labels":                 strings.Repeat("a{"+strings.Repeat(`b="",`, 1000)+"} 1\n", size/5000),
		"escapes":                strings.Repeat(`a{b="`+strings.Repeat(`\n`, 1000)+"\"} 1\n", size/2000),
		"a line":                 strings.Repeat("a", size),
	} {
		r := NewTextReader(DefaultOptions())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.Read([]byte(body))
		runtime.ReadMemStats(&after)
		if got := int(after.TotalAlloc-before.TotalAlloc) - len(body); got > 64*len(body) {
			t.Errorf("%s: %d bytes for %d", name, got, len(body))
		}
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	var bodies [][]byte
	for _, c := range legal {
		if !strings.Contains(c.name, "any bytes") && c.name != "values" { // UTF-8 is mended, or strconv says how a number is out of range
			bodies = append(bodies, []byte(c.body))
		}
	}
	bodies = append(bodies, []byte(manyFamiliesBody(30, 30)), []byte("a{b=\"c\nd\"} 1"), []byte("a{b=\"c\"} 1 5"), []byte("a 1\na 1"))
	r := NewTextReader(DefaultOptions())
	allocs := testing.AllocsPerRun(100, func() {
		for _, body := range bodies {
			r.Read(body)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a run, want 0", allocs)
	}
}

var pushed = lines(
	"# HELP batch_last_success_timestamp_seconds When the batch last succeeded.",
	"# TYPE batch_last_success_timestamp_seconds gauge",
	"batch_last_success_timestamp_seconds 1.7000000001234567e+09",
	"# HELP batch_records_total Records, by outcome.",
	"# TYPE batch_records_total counter",
	`batch_records_total{outcome="ok"} 12345`,
	`batch_records_total{outcome="skipped"} 17`,
	`batch_records_total{outcome="failed"} 0`,
	"# HELP batch_stage_seconds How long stages took.",
	"# TYPE batch_stage_seconds gauge",
	`batch_stage_seconds{stage="read",shard="1"} 1.25`,
	`batch_stage_seconds{stage="read",shard="2"} 1.5`,
	`batch_stage_seconds{stage="sort",shard="1"} 10.75`,
	`batch_stage_seconds{stage="sort",shard="2"} 11`,
	`batch_stage_seconds{stage="write",shard="1"} 0.125`,
	`batch_stage_seconds{stage="write",shard="2"} 0.0625`,
)

// pushedHistograms is what a client library exposes of two histograms and a summary.
func pushedHistograms() string {
	var b strings.Builder
	b.WriteString("# HELP request_seconds How long.\n# TYPE request_seconds histogram\n")
	for _, method := range []string{"GET", "PUT"} {
		for i, le := range []string{"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"} {
			fmt.Fprintf(&b, "request_seconds_bucket{method=%q,code=\"200\",le=%q} %d\n", method, le, 100*i)
		}
		fmt.Fprintf(&b, "request_seconds_sum{method=%q,code=\"200\"} 123.456\nrequest_seconds_count{method=%q,code=\"200\"} 1100\n", method, method)
	}
	b.WriteString("# TYPE gc_seconds summary\ngc_seconds{quantile=\"0\"} 1.2e-05\ngc_seconds{quantile=\"0.5\"} 3.4567e-05\ngc_seconds{quantile=\"1\"} 0.002\n")
	b.WriteString("gc_seconds_sum 0.75\ngc_seconds_count 321\n")
	return b.String()
}

func BenchmarkTextReader(b *testing.B) {
	for _, c := range []struct {
		name, body        string
		families, samples int
	}{
		{"push", pushed, 3, 10},
		{"histograms", pushedHistograms(), 2, 33},
		{"many", manyFamiliesBody(30, 100), 30, 3000},
		{"refused", pushed + "a 1 1", 0, 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			body := []byte(c.body)
			r := NewTextReader(DefaultOptions())
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if families, _ := r.Read(body); len(families) != c.families {
					b.Fatalf("%d families", len(families))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.samples), "ns/sample")
		})
	}
}
