package exposition

import (
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func TestAppend(t *testing.T) {
	for _, c := range []struct{ name, body, text, openMetrics string }{
		{"counter", lines("# HELP a_total x \\\\ \" \\n y", "# TYPE a_total counter", `a_total{b="c",d="\\\"\n"} 1`, "a_total 1e+06"),
			lines(`# HELP a_total x \\ " \n y`, "# TYPE a_total counter", `a_total{b="c",d="\\\"\n"} 1`, "a_total 1e+06"),
			lines(`# HELP a x \\ \" \n y`, "# TYPE a counter", `a_total{b="c",d="\\\"\n"} 1.0`, "a_total 1e+06")},
		{"counter without _total", lines("# TYPE a counter", "a 1"), lines("# TYPE a counter", "a 1"), lines("# TYPE a unknown", "a 1.0")},
		{"counter of the name _total", lines("# TYPE _total counter", "_total 1"), lines("# TYPE _total counter", "_total 1"), lines("# TYPE _total unknown", "_total 1.0")},
		{"untyped", lines(`a{b=""} 0.5`), lines("# TYPE a untyped", `a{b=""} 0.5`), lines("# TYPE a unknown", `a{b=""} 0.5`)},
		{"values", lines("# TYPE a gauge", "a NaN", `a{b="1"} +Inf`, `a{b="2"} -Inf`, `a{b="3"} -0`),
			lines("# TYPE a gauge", "a NaN", `a{b="1"} +Inf`, `a{b="2"} -Inf`, `a{b="3"} -0`),
			lines("# TYPE a gauge", "a NaN", `a{b="1"} +Inf`, `a{b="2"} -Inf`, `a{b="3"} -0.0`)},
		{"quoted", lines(`# TYPE "a.b_total" counter`, `{"a.b_total"} 1`, `{"a.b_total","c.d"="e",f="g"} 1`),
			lines(`# TYPE "a.b_total" counter`, `{"a.b_total"} 1`, `{"a.b_total","c.d"="e",f="g"} 1`),
			lines(`# TYPE "a.b" counter`, `{"a.b_total"} 1.0`, `{"a.b_total","c.d"="e",f="g"} 1.0`)},
		{"histogram", lines("# TYPE h histogram", `h_bucket{a="b",le="1"} 1`, `h_sum{a="b"} 3`, `h_count{a="b"} 2`),
			lines("# TYPE h histogram", `h_bucket{a="b",le="1"} 1`, `h_bucket{a="b",le="+Inf"} 2`, `h_sum{a="b"} 3`, `h_count{a="b"} 2`),
			lines("# TYPE h histogram", `h_bucket{a="b",le="1.0"} 1`, `h_bucket{a="b",le="+Inf"} 2`, `h_sum{a="b"} 3.0`, `h_count{a="b"} 2`)},
		{"quoted summary", lines(`# TYPE "s.x" summary`, `{"s.x",quantile="0.5"} 1`, `{"s.x_sum"} 3`, `{"s.x_count"} 2.5`),
			lines(`# TYPE "s.x" summary`, `{"s.x",quantile="0.5"} 1`, `{"s.x_sum"} 3`, `{"s.x_count"} 2.5`),
			lines(`# TYPE "s.x" summary`, `{"s.x",quantile="0.5"} 1.0`, `{"s.x_sum"} 3.0`, `{"s.x_count"} 2.5`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			families, fault := NewTextReader(DefaultOptions()).Read([]byte(c.body))
			if fault.Reason != metric.Applied {
				t.Fatal(fault)
			}
			if got := string(AppendEnd(Append([]byte("x"), Text, families...), Text)); got != "x"+c.text {
				t.Errorf("text\n got %s\nwant %s", got, c.text)
			}
			if got := string(AppendEnd(Append(nil, OpenMetrics, families...), OpenMetrics)); got != c.openMetrics+"# EOF\n" {
				t.Errorf("OpenMetrics\n got %s\nwant %s", got, c.openMetrics)
			}
		})
	}
	if got := Text.ContentType() + ", " + OpenMetrics.ContentType(); got !=
		"text/plain; version=0.0.4; charset=utf-8, application/openmetrics-text; version=1.0.0; charset=utf-8" {
		t.Error(got)
	}
}

// another body has something of everything.
var another = manyFamiliesBody(20, 20) + lines(`x{y="\\z\\\\\\\\"} 1`, "# TYPE s summary", `s{quantile="7"} 7`, `s{quantile="8"} 8`, `s{quantile="9"} 9`, "s_sum 1",
	"# TYPE h histogram", `h_bucket{le="7"} 7`, `h_bucket{le="8"} 8`, `h_bucket{le="9"} 9`, "h_count 9")

// FuzzRoundTrip: families that are written read back as equal.
func FuzzRoundTrip(f *testing.F) {
	for _, c := range legal {
		f.Add([]byte(c.body))
	}
	f.Add([]byte(manyFamiliesBody(12, 12)))
	r, again := NewTextReader(DefaultOptions()), NewTextReader(DefaultOptions())
	f.Fuzz(func(t *testing.T, body []byte) {
		if families, fault := r.Read(body); fault.Reason == metric.Applied {
			checkRoundTrip(t, again, families)
		}
	})
}

// checkRoundTrip writes families and reads them again.
func checkRoundTrip(t *testing.T, r *TextReader, families []Family) {
	want := strings.ReplaceAll(describe(families), "gaugehistogram ", "histogram ") // text has no other name for it
	text := Append(nil, Text, families...)
	got, fault := r.Read(text)
	if fault.detail == longLine {
		return // a number or an escape may take more bytes when it is written
	}
	if fault.Reason != metric.Applied || describe(got) != want {
		t.Fatalf("%s\n got %s (%v)\nwant %s", text, describe(got), fault, want)
	}
	if end := AppendEnd(Append(nil, OpenMetrics, families...), OpenMetrics); !strings.HasSuffix(string(end), "# EOF\n") {
		t.Fatal("no end")
	}
}
