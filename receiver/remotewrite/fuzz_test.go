package remotewrite

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"google.golang.org/protobuf/encoding/protowire"
)

// Every element of a body comes out once: as a sample, alone or joined with others, rejected, or
// superseded. Each sample can be handed to the table.
func FuzzFeed(f *testing.F) {
	all := append(classic("h", HistogramType, 1, 2, 3, 4), summary("s", NoType, 1, 2, 3, 4)...)
	all = append(all, one{labels: []string{"x", "a", "b"}, kind: CounterType, samples: at(1, nan, stale, 3), exemplars: 1},
		one{labels: []string{"n"}, histograms: []message{native(), native()[1:]}}, one{labels: []string{"y_count"}, samples: at(1, 2)})
	f.Add(request2(all...), true)
	f.Add(request1(map[string]Type{"h": HistogramType, "x": CounterType}, all...), false)
	f.Add(request2(classic("h", NoType, 1, 2, 3, 4)[1:3]...), true)
	feed := NewConverter(DefaultOptions())
	f.Fuzz(func(t *testing.T, body []byte, second bool) {
		v := V1
		if second {
			v = V2
		}
		if fault := feed.Reset(body, v, now); fault.Reason != metric.Applied {
			if fault.Error() == "" || fault.Offset > len(body) {
				t.Errorf("%+v", fault)
			}
			return
		}
		var came Counts
		for feed.Next() {
			came.Samples += feed.Of.Samples
			came.Histograms += feed.Of.Histograms
			if feed.Fault.Reason != metric.Applied {
				if feed.Fault.Error() == "" || feed.Fault.Offset > len(body) || feed.Entries < 1 {
					t.Errorf("%+v", feed.Fault)
				}
				continue
			}
			s := &feed.Sample
			pushed := s.Op == metric.Assign && s.Kind == metric.Gauge || s.Op == metric.Accumulate && (s.Kind == metric.Counter) == (s.Histogram == nil)
			switch {
			case s.Op == metric.MarkStale:
			case !pushed || s.Kind == metric.Timer && s.Histogram == nil:
				t.Errorf("%+v", s)
			case s.Histogram != nil:
				if r := s.Histogram.Check(); r != metric.Applied && r != metric.TooLong {
					t.Errorf("%s: %+v", r, s.Histogram)
				}
			}
			if len(s.Name) == 0 || s.Dated <= 0 {
				t.Errorf("%q %d", s.Name, s.Dated)
			}
		}
		came.Samples += feed.Superseded.Samples
		if want := elements(body, v); came != want {
			t.Errorf("%v came out of %v", came, want)
		}
		feed.Close()
	})
}

// elements counts what the series of a request have.
func elements(body []byte, v Version) (n Counts) {
	field, histogram := int32(seriesField1), int32(4)
	if v == V2 {
		field, histogram = seriesField2, 3
	}
	for len(body) > 0 {
		f, rest, _ := cut(body)
		for message := f.bytes; f.isBytes(protowire.Number(field)) && len(message) > 0; {
			inner, after, ok := cut(message)
			if !ok {
				break
			}
			if inner.isBytes(2) {
				n.Samples++
			}
			if inner.isBytes(protowire.Number(histogram)) {
				n.Histograms++
			}
			message = after
		}
		body = rest
	}
	return n
}

// A request becomes the same samples whether its series are known, from this request or any before,
// or not.
func FuzzKnownSeries(f *testing.F) {
	x := one{labels: []string{"x", "a", "b"}, kind: CounterType, samples: at(1), exemplars: 1}
	old := one{labels: []string{"y_total", "a", "b"}, samples: ago(1, 2*lateAfter)}
	parts := classic("h", HistogramType, 1, 2, 3, 4)
	f.Add(request2(append(parts, x, old)...), true)
	f.Add(request1(map[string]Type{"x": CounterType}, append(parts, x, old)...), false)
	f.Add(request1(nil, x, old, one{labels: []string{"x"}, samples: at(1, nan, stale, 3)}), false)
	c := &learner{known: map[string]learnt{}}
	f.Fuzz(func(t *testing.T, body []byte, second bool) {
		v := V1
		if second {
			v = V2
		}
		if len(c.known) > 1<<16 {
			clear(c.known)
		}
		sameWhenKnown(t, c, body, v)
	})
}

// testdata/request1 and request2 are one scrape as the types of Prometheus 3.11 (prompb,
// prompb/io/prometheus/write/v2) marshal it, at moment: those types are no dependency of ours.
func TestWhatPrometheusMarshals(t *testing.T) {
	const want = `jobs_total[{namespace shop} {pod web-1}] counter accumulate 7 SINCE
depth[{queue ü}] gauge assign -2.5 SINCE
gone[] gauge vanish SINCE
sizes[] timer accumulate [-4 -2 -0.125 0.125 0.25 0.5 1 2 4] [0 6 0 1 0 2 3 0 2 0] n=14 sum=8.5 since 5s for {0 1}
floats[] timer accumulate [-0 1 4] [0.5 0 2 0] n=2.5 sum=1 for {0 1}
custom[] timer accumulate [0.5 1] [2 0 3] n=5 sum=7 for {0 1}
{0 1} 1 unsupported: series # ("levels"), at byte #: gauge histograms are unsupported, because they have no distribution over a window; push the observations
latency[] timer accumulate [0.1 1] [1 1 1] n=3 sum=2.5 SINCE for {5 0}
wait[] timer accumulate [] [] n=4 sum=9 [{0.5 0.25}] SINCE for {3 0}`
	for name, v := range map[string]Version{"request1": V1, "request2": V2} {
		body, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines, _ := fed(t, body, v)
		for i := range lines {
			lines[i] = anywhere(lines[i])
		}
		expected := strings.ReplaceAll(want, "SINCE", "since 1m0s")
		if v == V1 { // it has no start
			expected = strings.ReplaceAll(strings.ReplaceAll(want, " SINCE", ""), " since 5s", "")
		}
		got := strings.Join(lines, "\n")
		if parts := strings.Split(expected, "\n"); strings.HasPrefix(lines[len(lines)-1], "latency") { // wholes come in any order
			parts[7], parts[8] = parts[8], parts[7]
			expected = strings.Join(parts, "\n")
		}
		if got != expected {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, expected)
		}
	}
}
