package otlp

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

var testOptions = Options{MaxLabels: 64, MaxLabelBytes: 1024, Attributes: []string{"service.name"}}

// export is a request of one resource, one scope and one metric, in JSON.
func export(resource, metric string) string {
	return fmt.Sprintf(`{"resourceMetrics":[{"resource":{"attributes":[%s]},"scopeMetrics":[{"scope":{"name":"s","version":"1"},"metrics":[%s]}]}]}`, resource, metric)
}

func attribute(key, value string) string {
	return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, value)
}

func attributes(all ...string) string {
	var b []string
	for i := 0; i < len(all); i += 2 {
		b = append(b, attribute(all[i], all[i+1]))
	}
	return strings.Join(b, ",")
}

// read is what a request holds: each sample, or the reason and message of what is none, as text. It
// is read in both encodings.
func read(t *testing.T, body string, instances bool) []string {
	t.Helper()
	all, err := Decode([]byte(body), JSON)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	got := textOf(all, instances)
	wire, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(all)
	if err != nil {
		t.Fatal(err)
	}
	if all, err = Decode(wire, Protobuf); err != nil {
		t.Fatal(err)
	}
	if again := textOf(all, instances); !slices.Equal(got, again) {
		t.Errorf("protobuf has %q, JSON %q", again, got)
	}
	return got
}

func textOf(all pmetric.Metrics, instances bool) (got []string) {
	r := NewReader(testOptions)
	for r.Reset(all, instances); r.Next(); {
		if r.Fault.Reason != metric.Applied {
			r.Explain()
			got = append(got, r.Fault.Reason.String()+" "+r.Fault.Message)
			continue
		}
		got = append(got, sampleText(&r.Sample))
	}
	return got
}

var opNames = map[metric.Op]string{metric.Add: "add", metric.Assign: "assign", metric.Shift: "shift", metric.Accumulate: "accumulate", metric.Merge: "merge", metric.MarkStale: "vanish"}

func sampleText(s *metric.Sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", s.Name, s.Kind, opNames[s.Op])
	if h := s.Histogram; h != nil {
		fmt.Fprintf(&b, " %v in %v of %v sum %v min %v max %v quantiles %v", h.Counts, h.Bounds, h.Count, h.Sum, h.Min, h.Max, h.Quantiles)
	} else if s.Op != metric.MarkStale {
		fmt.Fprintf(&b, " %d", s.Whole)
		if s.Fraction != 0 {
			fmt.Fprintf(&b, "%+g", s.Fraction)
		}
	}
	if s.Dated != 0 {
		fmt.Fprintf(&b, " @%d", s.Dated)
	}
	if s.Started != 0 {
		fmt.Fprintf(&b, " from %d", s.Started)
	}
	for _, l := range s.AppendLabels(nil) {
		fmt.Fprintf(&b, " %s=%s", l.Key, l.Value)
	}
	if len(s.Container) > 0 {
		fmt.Fprintf(&b, " container %s", s.Container)
	}
	return b.String()
}

// The kind and operation of each type of metric, by temporality and monotonicity.
func TestPoints(t *testing.T) {
	at := `"startTimeUnixNano":"1700000000000000001","timeUnixNano":"1700000060999999999"`
	sum := func(temporality int, monotonic bool, point string) string {
		return fmt.Sprintf(`{"name":"n","unit":"By","description":"d","sum":{"aggregationTemporality":%d,"isMonotonic":%v,"dataPoints":[%s]}}`, temporality, monotonic, point)
	}
	gauge := func(point string) string { return fmt.Sprintf(`{"name":"n","gauge":{"dataPoints":[%s]}}`, point) }
	histogram := func(temporality int, point string) string {
		return fmt.Sprintf(`{"name":"n","histogram":{"aggregationTemporality":%d,"dataPoints":[%s]}}`, temporality, point)
	}
	exponential := func(temporality int, point string) string {
		return fmt.Sprintf(`{"name":"n","exponentialHistogram":{"aggregationTemporality":%d,"dataPoints":[%s]}}`, temporality, point)
	}
	summary := func(point string) string { return fmt.Sprintf(`{"name":"n","summary":{"dataPoints":[%s]}}`, point) }
	for name, c := range map[string]struct{ metric, want string }{
		"a gauge":                       {gauge(`{"asDouble":2.5,` + at + `}`), "n gauge assign 2+0.5 @1700000060999999999"},
		"an integer is exact":           {gauge(`{"asInt":"9007199254740993"}`), "n gauge assign 9007199254740993"},
		"the least integer":             {gauge(`{"asInt":"-9223372036854775808"}`), "n gauge assign -9223372036854775808"},
		"a gauge that is NaN":           {gauge(`{"asDouble":"NaN",` + at + `}`), "n gauge vanish @1700000060999999999"},
		"a gauge that is infinite":      {gauge(`{"asDouble":"-Infinity",` + at + `}`), "n gauge vanish @1700000060999999999"},
		"no recorded value":             {gauge(`{"flags":1,` + at + `}`), "n gauge vanish @1700000060999999999"},
		"no value, and no flag":         {gauge(`{` + at + `}`), `malformed "n": the data point has neither asInt nor asDouble, nor the flag NO_RECORDED_VALUE`},
		"monotonic cumulative":          {sum(2, true, `{"asInt":"7",`+at+`}`), "n counter accumulate 7 @1700000060999999999 from 1700000000000000001"},
		"monotonic delta":               {sum(1, true, `{"asDouble":7.25,`+at+`}`), "n counter add 7+0.25 @1700000060999999999"},
		"cumulative up and down":        {sum(2, false, `{"asInt":"-7",`+at+`}`), "n gauge assign -7 @1700000060999999999"},
		"delta up and down":             {sum(1, false, `{"asInt":"-7",`+at+`}`), "n gauge shift -7 @1700000060999999999"},
		"no temporality":                {sum(0, true, `{"asInt":"7"}`), `unsupported "n": the aggregation temporality is unspecified; must be cumulative or delta`},
		"an unknown temporality":        {sum(3, true, `{"asInt":"7"}`), `unsupported "n": the aggregation temporality is unspecified; must be cumulative or delta`},
		"a total below 0":               {sum(2, true, `{"asInt":"-7"}`), `value "n": the monotonic sum is negative; must be at least 0`},
		"a delta that is NaN":           {sum(1, true, `{"asDouble":"NaN"}`), `value "n": the delta is NaN or infinite; must be finite`},
		"a shift that is NaN":           {sum(1, false, `{"asDouble":"NaN"}`), `value "n": the delta is NaN or infinite; must be finite`},
		"a total that is NaN":           {sum(2, true, `{"asDouble":"NaN",`+at+`}`), "n counter vanish @1700000060999999999"},
		"a delta that is infinite":      {sum(1, true, `{"asDouble":"Infinity"}`), `value "n": the delta is NaN or infinite; must be finite`},
		"exemplars":                     {sum(2, true, `{"asInt":"7","exemplars":[{"asDouble":1,"traceId":"0102030405060708090a0b0c0d0e0f10","filteredAttributes":[`+attribute("u", "1")+`]}]}`), "n counter accumulate 7"},
		"buckets, cumulative":           {histogram(2, `{"count":"6","sum":9.5,"min":0.5,"max":8,"explicitBounds":[1,2],"bucketCounts":["1","2","3"],`+at+`}`), "n timer accumulate [1 2 3] in [1 2] of 6 sum 9.5 min 0.5 max 8 quantiles [] @1700000060999999999 from 1700000000000000001"},
		"buckets, delta":                {histogram(1, `{"count":"6","explicitBounds":[1,2],"bucketCounts":["1","2","3"]}`), "n timer merge [1 2 3] in [1 2] of 6 sum NaN min NaN max NaN quantiles []"},
		"one bucket":                    {histogram(1, `{"count":"6","sum":1,"bucketCounts":["6"]}`), "n timer merge [] in [] of 6 sum 1 min NaN max NaN quantiles []"},
		"a count alone":                 {histogram(1, `{"count":"6","sum":1}`), "n timer merge [] in [] of 6 sum 1 min NaN max NaN quantiles []"},
		"no temporality of buckets":     {histogram(0, `{"count":"6"}`), `unsupported "n": the aggregation temporality is unspecified; must be cumulative or delta`},
		"a count too few":               {histogram(1, `{"count":"6","explicitBounds":[1,2],"bucketCounts":["1","2"]}`), `malformed "n": 2 bounds with 2 counts; must be one count more than bounds`},
		"a count that is no sum":        {histogram(1, `{"count":"7","explicitBounds":[1,2],"bucketCounts":["1","2","3"]}`), `value "n": the buckets add up to 6, but the count is 7`},
		"a sum of both signs and zero":  {exponential(1, `{"count":"9","sum":3,"scale":0,"zeroCount":"1","positive":{"offset":0,"bucketCounts":["2","3"]},"negative":{"offset":-1,"bucketCounts":["4"]}}`), `value "n": the buckets add up to 10, but the count is 9`},
		"bounds that fall":              {histogram(1, `{"count":"6","explicitBounds":[2,1],"bucketCounts":["1","2","3"]}`), `value "n": the bounds are not finite and strictly increasing`},
		"no recorded histogram":         {histogram(2, `{"flags":1}`), "n timer vanish"},
		"exponential":                   {exponential(2, `{"count":"10","sum":3,"scale":0,"zeroCount":"1","zeroThreshold":0.25,"positive":{"offset":0,"bucketCounts":["2","0","3"]},"negative":{"offset":-1,"bucketCounts":["4"]},`+at+`}`), "n timer accumulate [0 4 0 1 0 2 0 3 0] in [-1 -0.5 -0.25 0.25 1 2 4 8] of 10 sum 3 min NaN max NaN quantiles [] @1700000060999999999 from 1700000000000000001"},
		"exponential, delta":            {exponential(1, `{"count":"2","sum":3,"scale":1,"positive":{"offset":2,"bucketCounts":["2"]}}`), "n timer merge [0 2 0] in [2 2.82842712474619] of 2 sum 3 min NaN max NaN quantiles []"},
		"exponential, of all scales":    {exponential(1, `{"count":"2","sum":3,"scale":2147483647,"positive":{"offset":-2147483648,"bucketCounts":["2"]}}`), "n timer merge [0 2 0] in [0.9999993389635549 1] of 2 sum 3 min NaN max NaN quantiles []"},
		"indices that no one can count": {exponential(1, `{"count":"2","scale":1,"positive":{"offset":2147483647,"bucketCounts":["2"]}}`), `value "n": buckets begin at index 2147483647`},
		"a zero threshold below 0":      {exponential(1, `{"count":"2","zeroThreshold":-1}`), `value "n": the zero threshold is -1`},
		"exponential and empty":         {exponential(2, `{"count":"0","sum":0}`), "n timer accumulate [] in [] of 0 sum 0 min NaN max NaN quantiles []"},
		"a summary":                     {summary(`{"count":"4","sum":9,"quantileValues":[{"quantile":0.5,"value":1},{"quantile":1,"value":"NaN"}],` + at + `}`), "n timer accumulate [] in [] of 4 sum 9 min NaN max NaN quantiles [{0.5 1} {1 NaN}] @1700000060999999999 from 1700000000000000001"},
		"a quantile above 1":            {summary(`{"count":"4","sum":9,"quantileValues":[{"quantile":99,"value":1}]}`), `value "n": quantile is 99; must be from 0 to 1`},
		"a time of the far future":      {gauge(`{"asInt":"1","timeUnixNano":"18446744073709551615"}`), "n gauge assign 1 @9223372036854775807"},
		"a start of the far future":     {sum(2, true, `{"asInt":"1","startTimeUnixNano":"18446744073709551615"}`), "n counter accumulate 1 from 9223372036854775807"},
	} {
		if got := read(t, export("", c.metric), false); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
	if got := read(t, export("", `{"name":"n"}`), false); len(got) != 0 {
		t.Errorf("a metric of no type: %q", got)
	}
}

// Which attributes are labels: all of a point, and of a resource those that say what it is about or
// are asked for.
func TestLabels(t *testing.T) {
	for name, c := range map[string]struct {
		resource, point string
		instances       bool
		want            string
	}{
		"nothing":                       {"", "", false, ""},
		"the point's":                   {"", attributes("http.route", "/cart", "empty", ""), false, " http.route=/cart empty="},
		"what is asked for":             {attributes("service.name", "cart", "service.version", "1.2", "host.name", "h"), "", false, " service.name=cart"},
		"the point's are first":         {attributes("service.name", "cart"), attributes("service.name", "own"), false, " service.name=own"},
		"a pod":                         {attributes("k8s.pod.uid", "u-1", "k8s.pod.name", "web-1", "k8s.namespace.name", "shop", "k8s.deployment.name", "web", "k8s.node.name", "n", "service.instance.id", "i", "container.id", "c"), "", true, " k8s.pod.name=web-1 k8s.namespace.name=shop"},
		"a pod by UID":                  {attributes("k8s.pod.uid", "u-1", "k8s.pod.name", "web-1", "service.instance.id", "i"), "", true, " k8s.pod.uid=u-1"},
		"a pod by container":            {attributes("container.id", "c0ffee", "k8s.pod.name", "web-1", "service.instance.id", "i"), "", true, " container c0ffee"},
		"an object":                     {attributes("sluice_object", "services/web", "k8s.namespace.name", "shop"), "", false, " sluice_object=services/web k8s.namespace.name=shop"},
		"an object, of several":         {attributes("sluice_object", "services/web", "service.instance.id", "i"), "", false, " sluice_object=services/web service.instance.id=i"},
		"an object, by pod":             {attributes("sluice_object", "services/web", "k8s.pod.name", "web-1", "k8s.namespace.name", "shop", "service.instance.id", "i"), "", false, " sluice_object=services/web k8s.pod.name=web-1 k8s.namespace.name=shop"},
		"an object, said by a point":    {"", attributes("sluice_object", "services/web"), false, " sluice_object=services/web"},
		"who is no pod":                 {attributes("service.name", "cart", "service.instance.id", "i"), "", true, " service.instance.id=i service.name=cart"},
		"who is one":                    {attributes("service.name", "cart", "service.instance.id", "i"), "", false, " service.name=cart"},
		"a namespace alone says little": {attributes("k8s.namespace.name", "shop"), "", true, ""},
		"what is no string": {"", `{"key":"i","value":{"intValue":"-5"}},{"key":"b","value":{"boolValue":true}},{"key":"d","value":{"doubleValue":1.5}},` +
			`{"key":"a","value":{"arrayValue":{"values":[{"intValue":1},{"stringValue":"x"}]}}},{"key":"m","value":{"kvlistValue":{"values":[` + attribute("k", "v") + `]}}},{"key":"none"}`,
			false, ` i=-5 b=true d=1.5 a=[1,"x"] m={"k":"v"} none=`},
	} {
		got := read(t, export(c.resource, `{"name":"n","gauge":{"dataPoints":[{"asInt":"1","attributes":[`+c.point+`]}]}}`), c.instances)
		if want := "n gauge assign 1" + c.want; len(got) != 1 || got[0] != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
}

// Processes of one pod are apart by their instance, if the setting names it.
func TestInstancesOfAPod(t *testing.T) {
	body := export(attributes("k8s.pod.name", "web-1", "k8s.namespace.name", "shop", "service.instance.id", "worker-1"),
		`{"name":"n","gauge":{"dataPoints":[{"asInt":"1"}]}}`)
	all, err := Decode([]byte(body), JSON)
	if err != nil {
		t.Fatal(err)
	}
	options := testOptions
	options.Attributes = []string{"service.name", "service.instance.id"}
	r := NewReader(options)
	r.Reset(all, false)
	if want := "n gauge assign 1 k8s.pod.name=web-1 k8s.namespace.name=shop service.instance.id=worker-1"; !r.Next() || sampleText(&r.Sample) != want {
		t.Errorf("%q, want %q", sampleText(&r.Sample), want)
	}
}

func TestLabelsThatAreRefused(t *testing.T) {
	many := ""
	for i := range 65 {
		many += "," + attribute(fmt.Sprint("k", i), "v")
	}
	for name, c := range map[string]struct{ point, want string }{
		"no key":       {attribute("", "v"), `malformed "n": an attribute has no key`},
		"a long key":   {attribute(strings.Repeat("k", 1025), "v"), `too_long "n": an attribute's key has 1025 bytes; must have at most 1024`},
		"a long value": {attribute("k", strings.Repeat("v", 1025)), `too_long "n": attribute "k" has 1025 bytes; must have at most 1024`},
		"too many":     {many[1:], `too_long "n": 65 attributes; must be at most 64`},
	} {
		got := read(t, export("", `{"name":"n","gauge":{"dataPoints":[{"asInt":"1","attributes":[`+c.point+`]}]}}`), false)
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
	all := pmetric.NewMetrics()
	m := all.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("n")
	p := m.SetEmptyGauge().DataPoints().AppendEmpty()
	p.SetIntValue(1)
	p.Attributes().PutStr("k", "\xff")
	if got, want := textOf(all, false), `malformed "n": attribute "k" is not UTF-8`; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Data points are read in order, whatever empty elements stand between them.
func TestOrder(t *testing.T) {
	all := pmetric.NewMetrics()
	n, want := 0, []string{}
	for i := range 4 {
		r := all.ResourceMetrics().AppendEmpty()
		for range i {
			s := r.ScopeMetrics().AppendEmpty()
			for k := range i {
				m := s.Metrics().AppendEmpty()
				m.SetName(fmt.Sprint("m", k))
				g := m.SetEmptyGauge()
				for range k {
					n++
					g.DataPoints().AppendEmpty().SetIntValue(int64(n))
					want = append(want, fmt.Sprintf("m%d gauge assign %d", k, n))
				}
			}
		}
	}
	if got := textOf(all, false); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A histogram is not remembered by the next one.
func TestOneAfterTheOther(t *testing.T) {
	got := read(t, export("", `{"name":"n","exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[{"count":"2","scale":0,"min":1,"negative":{"offset":0,"bucketCounts":["2"]}},{"count":"1","scale":0,"positive":{"offset":0,"bucketCounts":["1"]}}]}},`+
		`{"name":"m","summary":{"dataPoints":[{"count":"1","quantileValues":[{"quantile":0.5,"value":1}]}]}},{"name":"l","histogram":{"aggregationTemporality":1,"dataPoints":[{"count":"1","explicitBounds":[1],"bucketCounts":["1","0"]}]}}`), false)
	want := []string{
		"n timer merge [0 2 0] in [-2 -1] of 2 sum NaN min 1 max NaN quantiles []",
		"n timer merge [0 1 0] in [1 2] of 1 sum NaN min NaN max NaN quantiles []",
		"m timer accumulate [] in [] of 1 sum 0 min NaN max NaN quantiles [{0.5 1}]",
		"l timer merge [1 0] in [1] of 1 sum NaN min NaN max NaN quantiles []",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q,\nwant %q", got, want)
	}
}

func TestTooManyBuckets(t *testing.T) {
	all := pmetric.NewMetrics()
	metrics := all.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for _, n := range []int{maxBuckets, maxBuckets + 1} {
		m := metrics.AppendEmpty()
		h := m.SetEmptyExponentialHistogram()
		h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		p := h.DataPoints().AppendEmpty()
		p.SetCount(uint64(n))
		p.SetScale(20)
		for range n {
			p.Positive().BucketCounts().Append(1)
		}
	}
	m := metrics.AppendEmpty()
	h := m.SetEmptyHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	p := h.DataPoints().AppendEmpty()
	for i := range metric.MaxBounds + 1 {
		p.ExplicitBounds().Append(float64(i))
		p.BucketCounts().Append(1)
	}
	q := metrics.AppendEmpty().SetEmptySummary().DataPoints().AppendEmpty()
	for range metric.MaxQuantiles + 1 {
		q.QuantileValues().AppendEmpty()
	}
	r := NewReader(testOptions)
	r.Reset(all, false)
	if !r.Next() || r.Fault.Reason != metric.Applied || len(r.Sample.Histogram.Bounds) > metric.MaxBounds {
		t.Errorf("%+v", r.Fault)
	}
	total := 0.0
	for _, n := range r.Sample.Histogram.Counts {
		total += n
	}
	if total != maxBuckets || math.IsNaN(total) {
		t.Errorf("%v observations, want %d", total, maxBuckets)
	}
	for range 3 {
		if !r.Next() || r.Fault.Reason != metric.TooLong {
			t.Errorf("%+v", r.Fault)
		}
	}
}

// A reader says no more than the reason of a fault until it is asked, goes on after the point that
// it has explained, and forgets what it has read.
func TestExplainedFaults(t *testing.T) {
	all, err := Decode([]byte(export(attribute("service.name", "cart"), `{"name":"n","gauge":{"dataPoints":[{},{"asInt":"1","attributes":[`+attribute("k", "v")+`]}]}}`)), JSON)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(testOptions)
	r.Reset(all, false)
	if !r.Next() || r.Fault.Reason != metric.Malformed || r.Fault.Message != "" {
		t.Errorf("%+v", r.Fault)
	}
	if r.Explain(); r.Fault.Reason != metric.Malformed || !strings.Contains(r.Fault.Message, "asDouble") {
		t.Errorf("%+v", r.Fault)
	}
	if !r.Next() || r.Fault != (Fault{}) || r.Sample.Whole != 1 {
		t.Errorf("%+v after %+v", r.Sample, r.Fault)
	}
	r.Reset(pmetric.NewMetrics(), false)
	for _, l := range slices.Concat(r.labels[:cap(r.labels)], r.resource.labels[:cap(r.resource.labels)]) {
		if l != (metric.Label{}) {
			t.Errorf("%v is still held", l)
		}
	}
	if r.Next() || r.Sample.Name != nil {
		t.Errorf("after the end: %+v", r.Sample)
	}
}
