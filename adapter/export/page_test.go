package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"google.golang.org/protobuf/encoding/protodelim"
)

// table is a Source of a few series.
type table []series

type series struct {
	metric.LiveSeries
	name string
	kind metric.Kind
}

func (t table) Families(match func(*metric.Family) bool) (all []metric.Family) {
	for _, s := range t {
		family := metric.Family{Resource: s.Object.Resource, Namespace: s.Object.Namespace, Name: s.name}
		at := slices.IndexFunc(all, func(f metric.Family) bool { f.Kinds = 0; return f == family })
		if at >= 0 {
			all[at].Kinds |= metric.KindSetOf(s.kind)
		} else if match(&family) {
			family.Kinds = metric.KindSetOf(s.kind)
			all = append(all, family)
		}
	}
	return all
}

func (t table) Reader() Reader { return t }

func (t table) Persist(context.Context) error { return nil }

func (t table) Persisting() error { return nil }

func (t table) Series(f *metric.Family, k metric.Kind, yield func(*metric.LiveSeries) bool) {
	for _, s := range t {
		if s.name == f.Name && s.Object.Resource == f.Resource && s.Object.Namespace == f.Namespace && s.kind == k && !yield(&s.LiveSeries) {
			return
		}
	}
}

// of is a series as "kind resource/namespace/name metric key=value,… number".
func of(text string) series {
	fields := strings.Fields(text)
	s := series{name: fields[2]}
	s.kind, _ = metric.ParseKind(fields[0])
	object := strings.Split(fields[1], "/")
	s.Object = metric.Object{Resource: object[0], Namespace: object[1], Name: object[2]}
	var labels []metric.Label
	for _, l := range strings.Split(strings.Trim(fields[3], "{}"), ",") {
		if key, value, ok := strings.Cut(l, "="); ok {
			labels = append(labels, metric.Label{Key: key, Value: value})
		}
	}
	s.Labels = metric.NewLabels(labels)
	var v float64
	fmt.Sscan(fields[4], &v)
	s.Value = metric.Float(v)
	s.Buckets = metric.Buckets{Schema: 3, ZeroThreshold: 1e-12, Zero: 1, Sum: v,
		Negative: []metric.Bucket{{Index: -3, Count: 1}}, Positive: []metric.Bucket{{Index: 28, Count: 1}, {Index: 29, Count: 2}, {Index: 35, Count: 0.5}}}
	s.Summary = metric.Summary{Count: 2, Sum: v, Quantiles: []metric.Quantile{{Q: 0.5, Value: v / 2}, {Q: 0.99, Value: math.NaN()}}}
	return s
}

func tableOf(lines ...string) (t table) {
	for _, l := range lines {
		t = append(t, of(l))
	}
	return t
}

func page(t *testing.T, source Source, o Options) (string, Written) {
	t.Helper()
	var b bytes.Buffer
	written, err := NewPage(source, o).Write(&b)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), written
}

func TestNamesAndLabels(t *testing.T) {
	for _, c := range []struct {
		name    string
		table   table
		options Options
		want    string
		leftOut int
	}{
		{"objects", tableOf("counter pods/shop/web-1 http.requests {code=200} 3", "counter deployments.apps/shop/web http.requests {} 4",
			"gauge nodes//n1 load {} 0.5", "counter jobs.batch/shop/j done_total {} 1", "set widgets.example.com/shop/w users {} 7",
			"gauge namespaces//shop load {} 2", "gauge // cluster {} 1", "gauge /shop/ queue {} 9"), Options{}, `
# TYPE cluster gauge
cluster 1
# TYPE done_total counter
done_total{namespace="shop",job_name="j"} 1
# TYPE http_requests_total counter
http_requests_total{namespace="shop",deployment="web"} 4
http_requests_total{namespace="shop",pod="web-1",code="200"} 3
# TYPE load gauge
load{namespace="shop"} 2
load{node="n1"} 0.5
# TYPE queue gauge
queue{namespace="shop"} 9
# TYPE users gauge
users{namespace="shop",resource="widgets.example.com",object="w"} 7
`, 0},
		{"names as Prometheus 3 reads them", tableOf("counter pods/shop/web-1 http.requests {a.b=c} 3"), Options{Escaping: exposition.AllowUTF8}, `
# TYPE "http.requests_total" counter
{"http.requests_total",namespace="shop",pod="web-1","a.b"="c"} 3
`, 0},
		{"names as statsd_exporter writes them", tableOf("counter pods/shop/web-1 1http.re-quests {a.b=c} 3", "timer /shop/ lat {} 12"),
			Options{Naming: StatsDExporter, Escaping: exposition.AllowUTF8, Seconds: []string{"*"}}, `
# TYPE _1http_re_quests counter
_1http_re_quests{namespace="shop",pod="web-1",a_b="c"} 3
# TYPE lat summary
lat{namespace="shop",quantile="0.5"} 0.006
lat{namespace="shop",quantile="0.99"} NaN
lat_sum{namespace="shop"} 0.012
lat_count{namespace="shop"} 2
`, 0},
		{"without totals", tableOf("counter /shop/ hits {} 3", "timer /shop/ lat {} 12", "set /shop/ users {} 7", "gauge /shop/ x {} 1", "counter /bank/ x {} 1"),
			Options{WithoutTotals: true}, `
# TYPE users gauge
users{namespace="shop"} 7
# TYPE x gauge
x{namespace="shop"} 1
`, 0},
		{"timers", tableOf("timer pods/shop/web-1 lat {quantile=x,le=y} 12", "timer pods/shop/web-1 other {} 12"), Options{Seconds: []string{"o*"}}, `
# TYPE lat summary
lat{namespace="shop",pod="web-1",exported_le="y",exported_quantile="x",quantile="0.5"} 6
lat{namespace="shop",pod="web-1",exported_le="y",exported_quantile="x",quantile="0.99"} NaN
lat_sum{namespace="shop",pod="web-1",exported_le="y",exported_quantile="x"} 12
lat_count{namespace="shop",pod="web-1",exported_le="y",exported_quantile="x"} 2
# TYPE other summary
other{namespace="shop",pod="web-1",quantile="0.5"} 0.006
other{namespace="shop",pod="web-1",quantile="0.99"} NaN
other_sum{namespace="shop",pod="web-1"} 0.012
other_count{namespace="shop",pod="web-1"} 2
`, 0},
		{"taken labels", tableOf("gauge pods/shop/web-1 g {pod=x,exported_pod=y,namespace=z,__name__=n,empty=} 1"), Options{}, `
# TYPE g gauge
g{namespace="shop",pod="web-1",exported___name__="n",exported_pod="y",exported_namespace="z"} 1
`, 0},
		{"equal when escaped", tableOf("gauge pods/shop/web-1 a.b {} 1", "gauge pods/shop/web-1 a_b {} 2", "gauge pods/shop/web-1 a.b {x=} 3"), Options{}, `
# TYPE a_b gauge
a_b{namespace="shop",pod="web-1"} 1
`, 2},
		{"kinds of one name", tableOf("gauge pods/shop/a m {} 1", "timer pods/shop/b m {} 2", "set pods/shop/c m {} 3", "counter pods/shop/d m {} 4"), Options{Naming: StatsDExporter}, `
# TYPE m counter
m{namespace="shop",pod="d"} 4
# TYPE m_gauge gauge
m_gauge{namespace="shop",pod="a"} 1
# TYPE m_set gauge
m_set{namespace="shop",pod="c"} 3
# TYPE m_timer summary
m_timer{namespace="shop",pod="b",quantile="0.5"} 1
m_timer{namespace="shop",pod="b",quantile="0.99"} NaN
m_timer_sum{namespace="shop",pod="b"} 2
m_timer_count{namespace="shop",pod="b"} 2
`, 0},
		{"names of another's samples", tableOf("timer pods/shop/a m {} 1", "gauge pods/shop/a m_count {} 2", "counter pods/shop/a m_sum {} 3", "gauge pods/shop/a m_sum {} 4"), Options{}, `
# TYPE m summary
m{namespace="shop",pod="a",quantile="0.5"} 0.5
m{namespace="shop",pod="a",quantile="0.99"} NaN
m_sum{namespace="shop",pod="a"} 1
m_count{namespace="shop",pod="a"} 2
# TYPE m_sum_total counter
m_sum_total{namespace="shop",pod="a"} 3
`, 2},
		{"names of another namespace's samples", tableOf("gauge /bank/ queue_count {} 7", "timer /shop/ queue {} 2", "timer /bank/ queue_sum {} 4"), Options{}, `
# TYPE queue untyped
queue{namespace="shop",quantile="0.5"} 1
queue{namespace="shop",quantile="0.99"} NaN
# TYPE queue_count untyped
queue_count{namespace="bank"} 7
queue_count{namespace="shop"} 2
# TYPE queue_sum untyped
queue_sum{namespace="bank",quantile="0.5"} 2
queue_sum{namespace="bank",quantile="0.99"} NaN
queue_sum{namespace="shop"} 2
# TYPE queue_sum_count untyped
queue_sum_count{namespace="bank"} 2
# TYPE queue_sum_sum untyped
queue_sum_sum{namespace="bank"} 4
`, 0},
		{"kinds of another namespace", tableOf("timer /bank/ lat {} 2", "gauge /shop/ lat {} 1", "counter /bank/ n {} 1", "gauge /shop/ n_total {} 2"), Options{}, `
# TYPE lat untyped
lat{namespace="bank",quantile="0.5"} 1
lat{namespace="bank",quantile="0.99"} NaN
lat{namespace="shop"} 1
# TYPE lat_count untyped
lat_count{namespace="bank"} 2
# TYPE lat_sum untyped
lat_sum{namespace="bank"} 2
# TYPE n_total untyped
n_total{namespace="bank"} 1
n_total{namespace="shop"} 2
`, 0},
		{"histograms beside another namespace's kinds", tableOf("timer /bank/ lat {} 2", "gauge /shop/ lat_bucket {} 1", "gauge /bank/ lat_sum {} 1"), Options{Timers: Histograms, Format: exposition.OpenMetrics}, `
# TYPE lat_bucket unknown
lat_bucket{le="+Inf",namespace="bank"} 5.5
lat_bucket{namespace="shop"} 1.0
# TYPE lat_count unknown
lat_count{namespace="bank"} 5.5
# TYPE lat_sum unknown
lat_sum{namespace="bank"} 2.0
# EOF
`, 1},
		{"counters in OpenMetrics", tableOf("gauge pods/shop/a m {} 1", "counter pods/shop/a m_total {} 2", "counter pods/shop/a n {} 2"), Options{Format: exposition.OpenMetrics}, `
# TYPE m gauge
m{namespace="shop",pod="a"} 1.0
# TYPE m_total unknown
m_total{namespace="shop",pod="a"} 2.0
# TYPE n counter
n_total{namespace="shop",pod="a"} 2.0
# EOF
`, 0},
		{"selected", tableOf("gauge pods/shop/a http.a {} 1", "gauge pods/shop/a http.b.c {} 2", "gauge pods/mail/a http.b {} 3", "gauge // http.b {} 3"),
			Options{Match: []string{"x", "*b*"}, Namespaces: []string{"shop"}}, `
# TYPE http_b_c gauge
http_b_c{namespace="shop",pod="a"} 2
`, 0},
		{"nothing", tableOf("gauge pods/shop/a m {} 1"), Options{Match: []string{"nothing"}, Format: exposition.OpenMetrics}, "\n# EOF\n", 0},
		{"not UTF-8", tableOf("gauge pods/shop/a m\xff {k\xff=v\xff} 1"), Options{Escaping: exposition.AllowUTF8}, "\n# TYPE \"m\uFFFD\" gauge\n{\"m\uFFFD\",namespace=\"shop\",pod=\"a\",\"k\uFFFD\"=\"v\uFFFD\"} 1\n", 0},
		{"hostile", tableOf("gauge pods/shop/a a\"}b\\ {k\"=\"x\\} 1"), Options{Escaping: exposition.AllowUTF8}, "\n# TYPE \"a\\\"}b\\\\\" gauge\n{\"a\\\"}b\\\\\",namespace=\"shop\",pod=\"a\",\"k\\\"\"=\"\\\"x\\\\\"} 1\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, written := page(t, c.table, c.options)
			if want := strings.TrimPrefix(c.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if written.LeftOut != c.leftOut {
				t.Errorf("%d left out, want %d", written.LeftOut, c.leftOut)
			}
		})
	}
}

// A scrape with honor_labels makes any pod's metrics look like Sluice's: those of its alerts are
// not on the page, whatever makes their names.
func TestAPodPushesNoneOfSluicesMetrics(t *testing.T) {
	pushed := tableOf("gauge pods/shop/a sluice_cluster_synced {} 0", "counter pods/shop/a sluice_samples_received {} 1",
		"gauge pods/shop/a sluice.cluster.synced {} 0", "timer /shop/ sluice_lat {} 1", "gauge pods/shop/a sluices {} 1", "gauge pods/shop/a my_sluice_m {} 1")
	for name, c := range map[string]struct {
		options Options
		leftOut int
	}{
		"escaped":         {Options{}, 4},
		"UTF-8":           {Options{Escaping: exposition.AllowUTF8}, 3}, // sluice.cluster.synced is another name
		"statsd_exporter": {Options{Naming: StatsDExporter, Escaping: exposition.AllowUTF8}, 4},
	} {
		text, written := page(t, pushed, c.options)
		if strings.Contains(text, " sluice_") || strings.Contains(text, "\nsluice_") || written.LeftOut != c.leftOut || written.Series != 6-c.leftOut {
			t.Errorf("%s: %d series, %d left out, want %d:\n%s", name, written.Series, written.LeftOut, c.leftOut, text)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "a.b/c", true}, {"a*", "a", true}, {"*a", "ba", true}, {"*a", "ab", false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "a1b2c", true}, {"a*b*c", "acb", false}, {"**", "x", true}, {"a*b*b", "ab", false},
		{"*ab*ab", "abab", true}, {"*ab*ab", "aab", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q of %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestKeep(t *testing.T) {
	p := NewPage(tableOf("gauge pods/shop/a m {} 1", "gauge pods/mail/a m {} 1", "gauge /mail/ n {} 1", "gauge // n {} 1"), Options{})
	if got := fmt.Sprint(p.Scopes()); got != "[pods/* in shop pods/* in mail external in mail external]" {
		t.Error(got)
	}
	p.Keep(func(o metric.Object) bool { return o.Namespace == "mail" })
	var b bytes.Buffer
	if p.Write(&b); strings.Count(b.String(), "mail") != 2 || strings.Contains(b.String(), "shop") {
		t.Error(b.String())
	}
}

// A page ends with the scraper that reads it.
func TestAScraperThatGoesAway(t *testing.T) {
	var lines []string
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf("gauge pods/shop/web-%d m {} 1", i))
	}
	w := &failing{left: 3}
	if written, err := NewPage(tableOf(lines...), Options{}).Write(w); err == nil || written.Series == 5000 {
		t.Errorf("%d series, %v", written.Series, err)
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errors.New("gone")
	}
	return len(b), nil
}

// parse reads a page with Prometheus' library.
func parse(body string, format exposition.Format) (map[string]*dto.MetricFamily, error) {
	if format == exposition.Text {
		p := expfmt.NewTextParser(model.UTF8Validation)
		return p.TextToMetricFamilies(strings.NewReader(body))
	}
	all := map[string]*dto.MetricFamily{}
	for from := bufio.NewReader(strings.NewReader(body)); ; {
		f := new(dto.MetricFamily)
		switch err := protodelim.UnmarshalFrom(from, f); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		case all[f.GetName()] == nil:
			all[f.GetName()] = f
		case all[f.GetName()].GetType() != f.GetType():
			return nil, fmt.Errorf("%s has two types", f.GetName())
		default:
			all[f.GetName()].Metric = append(all[f.GetName()].Metric, f.Metric...)
		}
	}
}

// The page is valid, and text and protobuf are the same page, whatever is pushed.
func FuzzPage(f *testing.F) {
	f.Add("a.b", "a_b", "k", "v.w", uint16(0x1234))
	f.Add("a", "a_count", "quantile", "le", uint16(0x31))
	f.Add("a_total", "a", "__name__", "", uint16(0x231))
	f.Fuzz(func(t *testing.T, a, b, key, value string, shape uint16) {
		if a == "" || b == "" || key == "" || strings.ContainsAny(a+b+key, "\x00") {
			t.Skip()
		}
		o := Options{Escaping: exposition.Escaping(shape & 3), Naming: Naming(shape >> 2 & 1), Timers: Timers(shape >> 15)}
		var all table
		for i, name := range []string{a, b, a + "_count", b + "_total"} {
			for j := range 2 {
				s := of(fmt.Sprintf("gauge pods/shop/%d x {} 1", j))
				s.name, s.kind = name, metric.Kinds()[(int(shape>>3)+int(shape>>5)*i+j)%4]
				s.Labels = metric.NewLabels([]metric.Label{{Key: key, Value: value}, {Key: "pod", Value: fmt.Sprint(i % 2)}})
				all = append(all, s)
			}
		}
		text, _ := page(t, all, o)
		o.Format = exposition.Protobuf
		messages, _ := page(t, all, o)
		fromText, err := parse(text, exposition.Text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		fromMessages, err := parse(messages, exposition.Protobuf)
		if err != nil {
			t.Fatal(err)
		}
		if len(fromText) != len(fromMessages) {
			t.Fatalf("%d families in text, %d in protobuf", len(fromText), len(fromMessages))
		}
		for name, family := range fromText {
			other := fromMessages[name]
			if other == nil || other.GetType() != family.GetType() || len(other.Metric) != len(family.Metric) {
				t.Fatalf("%q: %v and %v", name, family, other)
			}
			seen := map[string]bool{}
			for _, m := range other.Metric {
				slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
				if set := fmt.Sprint(m.Label); seen[set] {
					t.Fatalf("%q repeats %s", name, set)
				} else {
					seen[set] = true
				}
			}
		}
		o.Format = exposition.OpenMetrics
		if open, _ := page(t, all, o); !strings.HasSuffix(open, "# EOF\n") {
			t.Fatal(open)
		}
	})
}

func TestHistograms(t *testing.T) {
	source := tableOf("timer pods/shop/a lat {} 12", "timer pods/shop/b none {} 0")
	source[1].Buckets = metric.Buckets{Schema: 3, ZeroThreshold: 1e-12}
	o := Options{Timers: Histograms, Format: exposition.Protobuf, Seconds: []string{"l*"}}
	body, _ := page(t, source, o)
	families, err := parse(body, exposition.Protobuf)
	if err != nil {
		t.Fatal(err)
	}
	h := families["lat"].Metric[0].Histogram
	got := fmt.Sprint(h.GetSampleCountFloat(), h.GetSampleSum(), h.GetSchema(), h.GetZeroCountFloat(), h.GetZeroThreshold(), h.Bucket,
		h.NegativeSpan, h.NegativeCount, h.PositiveSpan, h.PositiveCount)
	if want := "5.5 0.012 3 1 1e-15 [] [offset:-83 length:1] [1] [offset:-52 length:2 offset:5 length:1] [1 2 0.5]"; strings.Join(strings.Fields(got), " ") != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if h = families["none"].Metric[0].Histogram; h.GetSampleCount() != 0 || len(h.PositiveSpan) != 1 {
		t.Errorf("%v", h)
	}
	o.Format = exposition.Text
	if body, _ = page(t, source[1:], o); body != "# TYPE none histogram\nnone_bucket{namespace=\"shop\",pod=\"b\",le=\"+Inf\"} 0\nnone_sum{namespace=\"shop\",pod=\"b\"} 0\nnone_count{namespace=\"shop\",pod=\"b\"} 0\n" {
		t.Error(body)
	}
}
