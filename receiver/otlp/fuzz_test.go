package otlp

import (
	"math"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// FuzzProtobuf: see fuzzed.
func FuzzProtobuf(f *testing.F) {
	for _, body := range hostile(64) {
		f.Add(body)
	}
	for _, body := range seeds() {
		all, err := Decode([]byte(body), JSON)
		if err != nil {
			f.Fatal(err)
		}
		wire, _ := (&pmetric.ProtoMarshaler{}).MarshalMetrics(all)
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, body []byte) { fuzzed(t, body, Protobuf) })
}

// FuzzJSON: see fuzzed.
func FuzzJSON(f *testing.F) {
	for _, body := range hostileJSON(64) {
		f.Add(string(body))
	}
	for _, body := range seeds() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { fuzzed(t, []byte(body), JSON) })
}

func seeds() []string {
	resource := attributes("service.name", "cart", "k8s.pod.name", "web-1", "k8s.namespace.name", "shop")
	return []string{
		export(resource, `{"name":"n","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"asInt":"7","attributes":[`+attributes("a", "b")+`]},{"asDouble":"NaN"},{"flags":1}]}}`),
		export(resource, `{"name":"h","histogram":{"aggregationTemporality":1,"dataPoints":[{"count":"6","sum":9.5,"min":0.5,"max":8,"explicitBounds":[1,2],"bucketCounts":["1","2","3"]}]}}`),
		export(resource, `{"name":"e","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[{"count":"10","scale":20,"zeroCount":"1","positive":{"offset":-5,"bucketCounts":["2","0","3"]},"negative":{"offset":-1,"bucketCounts":["4"]}}]}}`),
		export(resource, `{"name":"s","summary":{"dataPoints":[{"count":"4","sum":9,"quantileValues":[{"quantile":0.5,"value":1}]}]}}`),
		export("", `{"name":"g","gauge":{"dataPoints":[{"asDouble":1e300,"attributes":[{"key":"m","value":{"kvlistValue":{"values":[{"key":"x","value":{"bytesValue":"aGk="}}]}}}]}]}}`),
	}
}

// fuzzed: whatever is sent, each data point that the library sees is one sample or one fault, and
// what is a sample is one that the table's rules take.
func fuzzed(t *testing.T, body []byte, e Encoding) {
	weight, err := DecodedSize(body, e)
	if err != nil || weight > 1<<24 {
		return
	}
	all, err := Decode(body, e)
	if err != nil {
		return
	}
	r, n := NewReader(testOptions), 0
	for r.Reset(all, len(body)%2 == 0); r.Next(); n++ {
		s := &r.Sample
		switch {
		case r.Fault.Reason != metric.Applied:
			reason := r.Fault.Reason
			if r.Explain(); r.Fault.Message == "" || r.Fault.Reason != reason || r.Fault.Reason >= metric.Ignored {
				t.Fatalf("%+v", r.Fault)
			}
		case s.Op == metric.NoOp || s.Kind == metric.NoKind:
			t.Fatalf("a sample without op or kind: %+v", s)
		case s.Kind == metric.Timer && s.Op != metric.MarkStale && (s.Histogram == nil || s.Histogram.Check() != metric.Applied):
			t.Fatalf("a timer without a histogram that holds: %+v %+v", s, s.Histogram)
		case s.Kind != metric.Timer && !(s.Float() >= -math.MaxFloat64 && s.Float() <= math.MaxFloat64):
			t.Fatalf("a number that is none: %+v", s)
		case s.Dated < 0 || s.Started < 0 || len(s.Fields) > testOptions.MaxLabels:
			t.Fatalf("%+v", s)
		}
	}
	if want := all.DataPointCount(); n != want {
		t.Fatalf("%d samples and faults of %d data points", n, want)
	}
}
