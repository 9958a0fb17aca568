package remotewrite

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

var (
	now       = time.UnixMilli(1_700_000_000_000)
	nowMillis = now.UnixMilli()
	stale     = math.Float64frombits(staleMarker)
	inf       = math.Inf(1)
	nan       = math.NaN()
)

// at are samples of moments, oldest first: one a second up to now.
func at(values ...float64) (all []Sample) {
	for i, v := range values {
		all = append(all, Sample{v, nowMillis - int64(len(values)-1-i)*1000, 0})
	}
	return all
}

func ago(v float64, d time.Duration) []Sample { return []Sample{{v, nowMillis - d.Milliseconds(), 0}} }

// fed is all that a request becomes, a line each.
func fed(t testing.TB, body []byte, v Version) (lines []string, f *Converter) {
	t.Helper()
	f = NewConverter(DefaultOptions())
	if fault := f.Reset(body, v, now); fault.Reason != metric.Applied {
		return []string{fault.Error()}, f
	}
	for f.Next() {
		lines = append(lines, f.line())
	}
	return lines, f
}

var opNames = map[metric.Op]string{metric.Accumulate: "accumulate", metric.Assign: "assign", metric.MarkStale: "vanish"}

func (f *Converter) line() string {
	if f.Fault.Reason != metric.Applied {
		return fmt.Sprintf("%v %d %s: %s", f.Of, f.Entries, f.Fault.Reason, f.Fault.Error())
	}
	s := &f.Sample
	text := fmt.Sprintf("%s%v %s %s", s.Name, s.Fields, s.Kind, opNames[s.Op])
	switch h := s.Histogram; {
	case s.Op == metric.MarkStale:
	case h != nil:
		text += fmt.Sprintf(" %v %v n=%v sum=%v", h.Bounds, h.Counts, h.Count, h.Sum)
		if len(h.Quantiles) > 0 {
			text += fmt.Sprint(" ", h.Quantiles)
		}
	default:
		text += fmt.Sprint(" ", s.Float())
	}
	if s.Started != 0 {
		text += fmt.Sprint(" since ", now.Sub(time.Unix(0, s.Started)))
	}
	if s.Late {
		text += fmt.Sprint(" of ", now.Sub(s.Date()), " ago")
	}
	if f.Of != (Counts{Samples: 1}) {
		text += fmt.Sprint(" for ", f.Of)
	}
	return text
}

func classic(name string, t Type, values ...float64) (all []one) {
	for i, le := range []string{"0.1", "1", "+Inf"} {
		all = append(all, one{labels: []string{name + "_bucket", "a", "b", "le", le}, kind: t, samples: at(values[i])})
	}
	return append(all, one{labels: []string{name + "_count", "a", "b"}, kind: t, samples: at(values[2])},
		one{labels: []string{name + "_sum", "a", "b"}, kind: t, samples: at(values[3])})
}

func summary(name string, t Type, values ...float64) []one {
	return []one{{labels: []string{name, "a", "b", "quantile", "0.5"}, kind: t, samples: at(values[0])}, {labels: []string{name, "a", "b", "quantile", "0.99"}, kind: t, samples: at(values[1])},
		{labels: []string{name + "_sum", "a", "b"}, kind: t, samples: at(values[2])}, {labels: []string{name + "_count", "a", "b"}, kind: t, samples: at(values[3])}}
}

// native is a histogram with buckets (1,2] 3, (2,4] 5, and 2 around nothing.
func native() message {
	return message{}.varint(1, 10).double(3, 25).zigzag(4, 0).double(5, 0.5).varint(6, 2).bytes(11, span(1, 2)).deltas(12, 3, 2).varint(15, nowMillis)
}

func TestSeries(t *testing.T) {
	x := []string{"x", "a", "b"}
	for name, c := range map[string]struct {
		of   []one
		want []string
	}{
		"a counter by its metadata":             {[]one{{labels: x, kind: CounterType, samples: at(1, 2)}}, []string{"x[{a b}] counter accumulate 1", "x[{a b}] counter accumulate 2"}},
		"a counter by its name":                 {[]one{{labels: []string{"x_total"}, samples: at(7)}}, []string{"x_total[] counter accumulate 7"}},
		"a gauge by its metadata, not its name": {[]one{{labels: []string{"x_total"}, kind: GaugeType, samples: at(7)}}, []string{"x_total[] gauge assign 7"}},
		"a gauge where nothing says otherwise":  {[]one{{labels: x, samples: at(7.5)}}, []string{"x[{a b}] gauge assign 7.5"}},
		"info and state sets are gauges":        {[]one{{labels: x, kind: InfoType, samples: at(1)}, {labels: x, kind: StateSetType, samples: at(0)}}, []string{"x[{a b}] gauge assign 1", "x[{a b}] gauge assign 0"}},
		"when a family was created":             {[]one{{labels: []string{"x_created"}, kind: CounterType, samples: at(1.7e9)}, {labels: []string{"h_created"}, kind: HistogramType, samples: at(1.7e9)}}, []string{"x_created[] gauge assign 1.7e+09", "h_created[] gauge assign 1.7e+09"}},
		"a count that nobody says is a part":    {[]one{{labels: []string{"queue_count"}, samples: at(4)}}, []string{"queue_count[] gauge assign 4"}},
		"counts and sums of several moments":    {[]one{{labels: []string{"q_count", "a", "b"}, samples: at(4, 5)}, {labels: []string{"q_sum", "a", "b"}, samples: at(6, stale)}}, []string{"q_count[{a b}] gauge assign 4", "q_sum[{a b}] gauge assign 6", "q_count[{a b}] gauge assign 5", "q_sum[{a b}] gauge vanish"}},
		"samples out of order":                  {[]one{{labels: x, samples: []Sample{{2, nowMillis, 0}, {1, nowMillis - 1, 0}}}}, []string{"x[{a b}] gauge assign 1", "x[{a b}] gauge assign 2"}},
		"labels out of order":                   {[]one{{labels: []string{"x", "b", "1", "a", "2"}, samples: at(1)}}, []string{"x[{a 2} {b 1}] gauge assign 1"}},
		"a label without a value is none":       {[]one{{labels: []string{"x", "b", "", "a", "2"}, samples: at(1)}}, []string{"x[{a 2}] gauge assign 1"}},
		"reserved labels":                       {[]one{{labels: []string{"x", "__unit__", "s", "__type__", "counter", "a", "2"}, samples: at(1)}}, []string{"x[{a 2}] counter accumulate 1"}},
		"the stale marker":                      {[]one{{labels: x, samples: at(1, stale)}}, []string{"x[{a b}] gauge vanish"}},
		"any NaN, and infinities":               {[]one{{labels: x, samples: at(nan)}, {labels: x, samples: at(inf)}, {labels: []string{"x_total"}, samples: at(-inf)}}, []string{"x[{a b}] gauge vanish", "x[{a b}] gauge vanish", "x_total[] counter vanish"}},
		"an end, and a beginning":               {[]one{{labels: x, samples: at(1, stale, 2, nan, 3, 4)}}, []string{"x[{a b}] gauge vanish", "x[{a b}] gauge assign 3", "x[{a b}] gauge assign 4"}},
		"the end of a native histogram":         {[]one{{labels: x, kind: HistogramType, samples: at(stale)}}, []string{"x[{a b}] timer vanish"}},
		"a value of a histogram":                {[]one{{labels: x, kind: HistogramType, samples: at(1)}}, []string{`{1 0} 1 malformed: series 1 ("x"), at byte #: the series is of a histogram or summary, but neither a bucket or quantile, nor _count or _sum`}},
		"an old gauge":                          {[]one{{labels: x, samples: ago(1, 5*time.Minute)}, {labels: x, samples: ago(1, 5*time.Minute+time.Second)}}, []string{"x[{a b}] gauge assign 1", `{1 0} 1 outdated: series 2 ("x"), at byte #: the timestamp is too old for a gauge; must be at most 5m ago`}},
		"an old total counts when it was taken": {[]one{{labels: x, kind: CounterType, samples: ago(1, time.Hour)}, {labels: x, kind: CounterType, samples: ago(2, time.Minute)}}, []string{"x[{a b}] counter accumulate 1 of 1h0m0s ago", "x[{a b}] counter accumulate 2"}},
		"the future":                            {[]one{{labels: x, samples: ago(1, -10*time.Minute)}, {labels: []string{"x_total"}, samples: ago(1, -11*time.Minute)}}, []string{"x[{a b}] gauge assign 1", `{1 0} 1 value: series 2 ("x_total"), at byte #: the timestamp is more than 10m in the future; check the clocks of sender and server`}},
		"an old end":                            {[]one{{labels: x, samples: ago(stale, time.Hour)}, {labels: []string{"x_total"}, samples: ago(stale, time.Hour)}}, []string{"x[{a b}] gauge vanish", "x_total[] counter vanish"}},
		"no timestamp":                          {[]one{{labels: x, samples: []Sample{{1, 0, 0}}}}, []string{`{1 0} 1 value: series 1 ("x"), at byte #: a sample has no timestamp`}},
		"exemplars alone":                       {[]one{{labels: x, exemplars: 2}}, nil},
		"nothing at all":                        {[]one{{labels: x}}, []string{`{0 0} 1 malformed: series 1 ("x"), at byte #: the series has neither samples nor histograms`}},
		"no name":                               {[]one{{samples: at(1, 2)}}, []string{"{2 0} 2 malformed: series 1, at byte #: the series has no __name__"}},
		"one label twice":                       {[]one{{labels: []string{"x", "b", "1", "a", "2", "b", "1"}, samples: at(1)}}, []string{`{1 0} 1 malformed: series 1 ("x"), at byte #: two labels are named "b"`}},
		"two names":                             {[]one{{labels: []string{"x", "__name__", "y"}, samples: at(1)}}, []string{`{1 0} 1 malformed: series 1 ("x"), at byte #: two labels are named "__name__"`}},
		"a label without a name":                {[]one{{labels: []string{"x", "", "y"}, samples: at(1)}}, []string{`{1 0} 1 malformed: series 1 ("x"), at byte #: a label has no name`}},
		"no UTF-8":                              {[]one{{labels: []string{"x", "a", "\xff"}, samples: at(1)}}, []string{`{1 0} 1 malformed: series 1 ("x"), at byte #: the label "a" is not valid UTF-8`}},
		"a long label":                          {[]one{{labels: []string{"x", "a", strings.Repeat("y", 1025)}, samples: at(1)}}, []string{`{1 0} 1 too_long: series 1 ("x"), at byte #: the label "a", or its value, has more than 1024 bytes`}},
		"long labels":                           {[]one{{labels: []string{"x", "a", strings.Repeat("y", 1024), "b", strings.Repeat("y", 1024), "c", strings.Repeat("y", 1024), "d", strings.Repeat("y", 1024), "e", strings.Repeat("y", 1024), "f", strings.Repeat("y", 1024), "g", strings.Repeat("y", 1024), "h", strings.Repeat("y", 1024)}, samples: at(1)}}, []string{`{1 0} 1 too_long: series 1 ("x"), at byte #: the labels have more than 8192 bytes together`}},
		"one fault does not touch the others":   {[]one{{samples: at(1)}, {labels: x, samples: at(2)}}, []string{"{1 0} 1 malformed: series 1, at byte #: the series has no __name__", "x[{a b}] gauge assign 2"}},
	} {
		t.Run(name, func(t *testing.T) { bothVersions(t, c.of, c.want) })
	}
}

// bothVersions holds what a request becomes against lines, in which "#" stands for any offset.
func bothVersions(t *testing.T, of []one, want []string) {
	t.Helper()
	metadata := map[string]Type{}
	for _, o := range of {
		if o.kind != NoType && len(o.labels) > 0 {
			metadata[o.labels[0]] = o.kind
		}
	}
	got, _ := fed(t, request2(of...), V2)
	sameLines(t, "2.0", got, want)
	if len(metadata) < 2 { // 1.0 has one type a family
		got, _ = fed(t, request1(metadata, of...), V1)
		sameLines(t, "1.0", got, want)
	}
}

func sameLines(t *testing.T, version string, got, want []string) {
	t.Helper()
	var plain []string
	for _, line := range got {
		before, after, ok := strings.Cut(line, "at byte ")
		if ok {
			_, after, _ = strings.Cut(after, ":")
			line = before + "at byte #:" + after
		}
		plain = append(plain, line)
	}
	if !slices.Equal(plain, want) {
		t.Errorf("%s:\n%s\nwant\n%s", version, strings.Join(plain, "\n"), strings.Join(want, "\n"))
	}
}

func TestStarted(t *testing.T) {
	started := []Sample{{5, nowMillis, nowMillis - 3000}}
	got, _ := fed(t, request2(one{labels: []string{"x"}, kind: CounterType, samples: started},
		one{labels: []string{"x"}, kind: HistogramType, histograms: []message{native().varint(17, nowMillis-4000)}}), V2)
	want := []string{"x[] counter accumulate 5 since 3s", "x[] timer accumulate [-0.5 0.5 1 2 4] [0 2 0 3 5 0] n=10 sum=25 since 4s for {0 1}"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	draft := message{}.packed(1, 1, 2).bytes(2, sampleMessage(at(5)[0])).varint(6, nowMillis-2000)
	if got, _ := fed(t, message{}.text(4, "").text(4, nameLabel).text(4, "x_total").bytes(5, draft), V2); !slices.Equal(got, []string{"x_total[] counter accumulate 5 since 2s"}) {
		t.Errorf("by the draft: %q", got)
	}
	if got, _ := fed(t, request1(nil, one{labels: []string{"x_total"}, samples: started}), V1); got[0] != "x_total[] counter accumulate 5" {
		t.Errorf("1.0 has no start: %q", got)
	}
}

func TestNative(t *testing.T) {
	for name, c := range map[string]struct {
		h    message
		want string
	}{
		"integers":            {native(), "x[] timer accumulate [-0.5 0.5 1 2 4] [0 2 0 3 5 0] n=10 sum=25 for {0 1}"},
		"floats":              {message{}.double(2, 1.5).double(3, 2).bytes(11, span(1, 1)).doubles(13, 1.5).varint(15, nowMillis), "x[] timer accumulate [1 2] [0 1.5 0] n=1.5 sum=2 for {0 1}"},
		"not packed":          {message{}.varint(1, 3).bytes(11, span(1, 2)).zigzag(12, 1).zigzag(12, 1).varint(15, nowMillis), "x[] timer accumulate [1 2 4] [0 1 2 0] n=3 sum=0 for {0 1}"},
		"negative":            {message{}.varint(1, 3).bytes(8, span(1, 1)).deltas(9, 3).varint(15, nowMillis), "x[] timer accumulate [-2 -1] [0 3 0] n=3 sum=0 for {0 1}"},
		"custom bounds":       {message{}.varint(1, 6).double(3, 9).zigzag(4, -53).bytes(11, span(0, 1)).bytes(11, span(1, 1)).deltas(12, 2, 2).doubles(16, 0.1, 1).varint(15, nowMillis), "x[] timer accumulate [0.1 1] [2 0 4] n=6 sum=9 for {0 1}"},
		"nothing yet":         {message{}.bytes(11, span(0, 0)).varint(15, nowMillis), "x[] timer accumulate [] [] n=0 sum=0 for {0 1}"},
		"stale":               {message{}.double(3, stale).varint(15, nowMillis), "x[] timer vanish for {0 1}"},
		"late":                {message{}.varint(1, 1).varint(6, 1).varint(15, nowMillis-120_000), "x[] timer accumulate [-0] [1 0] n=1 sum=0 of 2m0s ago for {0 1}"},
		"a gauge":             {native().varint(14, 3), "unsupported: gauge histograms are unsupported"},
		"too few in buckets":  {message{}.varint(1, 7).double(3, 9).bytes(11, span(1, 1)).deltas(12, 6).varint(15, nowMillis), "value: a histogram's buckets do not add up to its count"},
		"too many in buckets": {message{}.varint(1, 5).double(3, 9).bytes(11, span(1, 1)).deltas(12, 6).varint(15, nowMillis), "value: a histogram's buckets do not add up to its count"},
		"a NaN observed":      {message{}.varint(1, 7).double(3, math.NaN()).bytes(11, span(1, 1)).deltas(12, 6).varint(15, nowMillis), "x[] timer accumulate [1 2] [0 6 0] n=7 sum=NaN for {0 1}"},
		"an unknown schema":   {native().zigzag(4, 9), "unsupported: a histogram's schema must be"},
		"a span too long":     {native().bytes(11, span(0, 1)), "malformed: a histogram's spans and buckets"},
		"a huge span":         {native().bytes(11, span(0, 1<<32-1)), "malformed: a histogram's spans and buckets"},
		"spans that go back":  {message{}.varint(1, 2).bytes(11, span(1, 1)).bytes(11, span(-1, 1)).deltas(12, 1, 0).varint(15, nowMillis), "malformed: a histogram's spans and buckets"},
		"below zero":          {message{}.varint(1, 2).bytes(11, span(1, 1)).deltas(12, -1).varint(15, nowMillis), "value: a histogram's counts"},
		"a NaN count":         {message{}.double(2, nan).varint(15, nowMillis), "value: a histogram's counts"},
		"custom and negative": {message{}.varint(1, 6).zigzag(4, -53).bytes(8, span(0, 1)).deltas(9, 2).doubles(16, 0.1, 1).varint(15, nowMillis), "malformed: a histogram's custom bounds"},
		"custom, falling":     {message{}.varint(1, 6).zigzag(4, -53).doubles(16, 1, 0.1).varint(15, nowMillis), "malformed: a histogram's custom bounds"},
		"custom, beyond":      {message{}.varint(1, 6).zigzag(4, -53).bytes(11, span(2, 2)).deltas(12, 2, 1).doubles(16, 0.1, 1).varint(15, nowMillis), "malformed: a histogram's custom bounds"},
		"broken":              {native()[:len(native())-1], "malformed: the bytes are not a message"},
	} {
		t.Run(name, func(t *testing.T) {
			for version, body := range map[Version][]byte{V1: request1(nil, one{labels: []string{"x"}, histograms: []message{c.h}}), V2: request2(one{labels: []string{"x"}, histograms: []message{c.h}})} {
				got, _ := fed(t, body, version)
				if len(got) != 1 {
					t.Fatalf("%q", got)
				}
				line := got[0]
				if before, after, refused := strings.Cut(line, ": series 1 (\"x\"), at byte "); refused {
					_, after, _ = strings.Cut(after, ":")
					line = strings.TrimPrefix(before, "{0 1} 1 ") + ":" + after
					line = line[:min(len(line), len(c.want))]
				}
				if line != c.want {
					t.Errorf("%d.0: %s, want %s", version, line, c.want)
				}
			}
		})
	}
}

func TestClassic(t *testing.T) {
	const whole = "x[{a b}] timer accumulate [0.1 1] [1 3 2] n=6 sum=9 for {5 0}"
	const missing = `malformed: series # ("x_bucket"), at byte #: the histogram is incomplete in this request: no bucket le="+Inf"; send it as one native histogram`
	h := classic("x", HistogramType, 1, 4, 6, 9)
	bare := classic("x", NoType, 1, 4, 6, 9)
	twice := slices.Clone(h)
	for i := range twice {
		twice[i].samples = append(ago(twice[i].samples[0].Value, time.Second), twice[i].samples...)
	}
	reversed := slices.Clone(h)
	slices.Reverse(reversed)
	for name, c := range map[string]struct {
		of   []one
		want []string
	}{
		"by metadata":              {h, []string{whole}},
		"by le":                    {bare, []string{whole}},
		"in any order":             {reversed, []string{whole}},
		"of two moments":           {twice, []string{"x[{a b}] timer accumulate [0.1 1] [1 3 2] n=6 sum=9 for {5 0}", whole}},
		"without a sum":            {h[:4], []string{"x[{a b}] timer accumulate [0.1 1] [1 3 2] n=6 sum=NaN for {4 0}"}},
		"without a count":          {h[:3], []string{"x[{a b}] timer accumulate [0.1 1] [1 3 2] n=6 sum=NaN for {3 0}"}},
		"without +Inf":             {h[:2], []string{"{2 0} 1 " + missing}},
		"nor by le":                {bare[:2], []string{"{2 0} 1 " + missing}},
		"a count alone":            {h[3:], []string{`{2 0} 1 malformed: series # ("x_count"), at byte #: the request has the histogram's _count or _sum, but no buckets`}},
		"one that ends":            {classic("x", HistogramType, stale, stale, stale, stale), []string{"x[{a b}] timer vanish for {5 0}"}},
		"a part of one that ends":  {classic("x", HistogramType, stale, stale, stale, stale)[:1], []string{"x[{a b}] timer vanish"}},
		"falling":                  {classic("x", HistogramType, 5, 4, 6, 9), []string{`{5 0} 1 value: series # ("x_bucket"), at byte #: bucket counts must not decrease`}},
		"below nothing":            {classic("x", HistogramType, -5, 4, 6, 9), []string{`{5 0} 1 value: series # ("x_bucket"), at byte #: a histogram's counts`}},
		"one bucket twice":         {append(slices.Clone(h), h[0]), []string{`{6 0} 1 malformed: series # ("x_bucket"), at byte #: two samples of one time`}},
		"a bound that is none":     {[]one{{labels: []string{"x_bucket", "le", "many"}, kind: HistogramType, samples: at(1, 2)}}, []string{`{2 0} 2 value: series # ("x_bucket"), at byte #: le is "many"; must be a number or +Inf`}},
		"a summary":                {summary("x", SummaryType, 3, nan, 9, 4), []string{"x[{a b}] timer accumulate [] [] n=4 sum=9 [{0.5 3} {0.99 NaN}] for {4 0}"}},
		"a summary by quantile":    {summary("x", NoType, 3, 7, 9, 4), []string{"x[{a b}] timer accumulate [] [] n=4 sum=9 [{0.5 3} {0.99 7}] for {4 0}"}},
		"without quantiles":        {summary("x", SummaryType, 3, 7, 9, 4)[2:], []string{"x[{a b}] timer accumulate [] [] n=4 sum=9 for {2 0}"}},
		"a summary in part":        {summary("x", SummaryType, 3, 7, 9, 4)[:2], []string{`{2 0} 1 malformed: series # ("x"), at byte #: the summary is incomplete`}},
		"no quantile":              {[]one{{labels: []string{"x", "quantile", "99"}, samples: at(1)}}, []string{`{1 0} 1 value: series # ("x"), at byte #: quantile is "99"`}},
		"of an object":             {[]one{{labels: []string{"x_bucket", "le", "+Inf", "namespace", "shop", "pod", "web-1"}, samples: at(1)}}, []string{"x[{namespace shop} {pod web-1}] timer accumulate [] [] n=1 sum=NaN"}},
		"le of a gauge is a label": {[]one{{labels: []string{"x_bucket", "le", "1"}, kind: GaugeType, samples: at(1)}}, []string{"x_bucket[{le 1}] gauge assign 1"}},
		"beside others":            {append([]one{{labels: []string{"y"}, kind: GaugeType, samples: at(1)}}, h...), []string{"y[] gauge assign 1", whole}},
	} {
		t.Run(name, func(t *testing.T) {
			got, f := fed(t, request2(c.of...), V2)
			check := func(version string, got []string) {
				t.Helper()
				if len(got) != len(c.want) {
					t.Fatalf("%s: %q, want %q", version, got, c.want)
				}
				for i := range got {
					if line := anywhere(got[i]); !strings.HasPrefix(line, c.want[i]) {
						t.Errorf("%s: %s\nwant %s", version, line, c.want[i])
					}
				}
			}
			check("2.0", got)
			f.Close()
			metadata := map[string]Type{}
			for _, o := range c.of {
				base := strings.TrimSuffix(strings.TrimSuffix(o.labels[0], "_bucket"), "_count")
				if o.kind != NoType && o.labels[0][0] == 'x' && o.kind != GaugeType {
					metadata[strings.TrimSuffix(base, "_sum")] = o.kind
				} else if o.kind != NoType {
					metadata[o.labels[0]] = o.kind
				}
			}
			got, _ = fed(t, request1(metadata, c.of...), V1)
			check("1.0", got)
		})
	}
}

// anywhere puts "#" for the numbers of series and bytes.
func anywhere(line string) string {
	for _, before := range []string{"series ", "at byte "} {
		head, tail, ok := strings.Cut(line, before)
		if number := strings.TrimLeft(tail, "0123456789"); ok && number != tail {
			line = head + before + "#" + number
		}
	}
	return line
}

// The fault of an unreadable request has an offset.
func TestBrokenRequests(t *testing.T) {
	good := request2(one{labels: []string{"x"}, samples: at(1)})
	for name, c := range map[string]struct {
		body []byte
		v    Version
		want string
	}{
		"cut short":              {good[:len(good)-1], V2, "at byte #: the bytes are not a message of the type in Content-Type"},
		"no protobuf":            {[]byte("x 1\n"), V1, "at byte #: the bytes are not a message of the type in Content-Type"},
		"a series of rubbish":    {message{}.text(5, "\xff\xff"), V2, "{0 0} 1 malformed: series #, at byte #: the bytes are not a message of the type in Content-Type"},
		"a reference to nothing": {message{}.text(4, "").bytes(5, message{}.packed(1, 0, 1)), V2, "{0 0} 1 malformed: series #, at byte #: a label refers to a symbol that does not exist"},
		"an odd reference":       {message{}.text(4, "").bytes(5, message{}.packed(1, 0)), V2, "{0 0} 1 malformed: series #, at byte #: labels_refs has a name without a value"},
		"many labels":            {message{}.text(4, "a").bytes(5, message{}.packed(1, make([]uint64, 130)...)), V2, "{0 0} 1 too_long: series #, at byte #: the series has more than 64 labels"},
		"many samples":           {request1(nil, one{labels: []string{"x"}, samples: make([]Sample, 1<<13+1)}), V1, `{8193 0} 8193 too_long: series # ("x"), at byte #: the series has more than 8192 samples or histograms`},
		"many symbols":           {bytes.Repeat(message{}.text(4, ""), 1<<17+1), V2, "at byte #: the request has more than 131072 symbols; send fewer series per request"},
		"of the other version":   {good, V1, ""},
	} {
		got, _ := fed(t, c.body, c.v)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || anywhere(got[0]) != c.want) {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

// Every fault has words.
func TestEveryFaultHasWords(t *testing.T) {
	o := DefaultOptions()
	for d := badMessage; d <= manyQuantiles; d++ {
		text := Fault{Reason: d.reason(), detail: d, about: "\x00", limit: o.limit(d)}.Error()
		if details[d] == "" || strings.Contains(text, "%!") || strings.Contains(text, "\x00") || d.reason() == metric.Applied {
			t.Errorf("%d: %q", d, text)
		}
	}
}

// Nothing is allocated for a sample once there is room for requests of a size.
func TestNoAllocation(t *testing.T) {
	var all []one
	for i := range 200 {
		all = append(all, one{labels: []string{fmt.Sprint("x", i), "a", "b", "c", "d"}, kind: CounterType, samples: at(1, 2)})
	}
	all = append(all, classic("h", HistogramType, 1, 2, 3, 4)...)
	all = append(all, one{labels: []string{"n"}, kind: HistogramType, histograms: []message{native()}})
	for version, body := range map[Version][]byte{V1: request1(map[string]Type{"h": HistogramType}, all...), V2: request2(all...)} {
		f := NewConverter(DefaultOptions())
		read := func() {
			f.Reset(body, version, now)
			for f.Next() {
				if f.Fault.Reason != metric.Applied {
					t.Fatal(f.Fault.Error())
				}
			}
			f.Close()
		}
		read()
		if n := testing.AllocsPerRun(100, read); n != 0 {
			t.Errorf("%d.0: %v allocations a request, want none", version, n)
		}
	}
}

// A request's cost is of its size, whatever it is made of: 131,072 parts take a fraction of a second
// and, by the square, minutes. The bound leaves room for a machine a hundred times slower.
func TestNoRequestIsDear(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector multiplies the cost")
	}
	same, apart := make([]Sample, 1<<13), make([]Sample, 1<<13)
	for i := range same {
		same[i], apart[i] = Sample{1, nowMillis, 0}, Sample{1, nowMillis - int64(i), 0}
	}
	for name, o := range map[string]one{
		"counts of one moment":     {labels: []string{"x_count"}, samples: same},
		"buckets of many moments":  {labels: []string{"x_bucket", "le", "+Inf"}, samples: apart},
		"one bucket of one moment": {labels: []string{"x_bucket", "le", "+Inf"}, samples: same},
	} {
		f := NewConverter(DefaultOptions())
		f.Reset(request1(nil, slices.Repeat([]one{o}, 16)...), V1, now)
		began, n := time.Now(), 0
		for f.Next() {
			n += f.Of.Samples
		}
		if took := time.Since(began); took > time.Minute || n != 1<<17 {
			t.Errorf("%s: %v for %d", name, took, n)
		}
	}
}
