package otlphttp

import (
	"testing"

	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Points in are points read or rejected, whatever the body.
func FuzzOTLP(f *testing.F) {
	all := pmetric.NewMetrics()
	for _, name := range []string{"g", "bad%", "g:p95"} {
		m := all.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName(name)
		m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(1)
	}
	seed, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(all)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, false)
	f.Add([]byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"n","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"asInt":"7"},{"asDouble":"NaN"}]}}]}]}]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		e := otlp.Protobuf
		if isJSON {
			e = otlp.JSON
		}
		if w, err := otlp.DecodedSize(body, e); err != nil || w > 1<<24 {
			return
		}
		all, err := otlp.Decode(body, e)
		if err != nil {
			return
		}
		r := New(httpserver.DefaultConfig(), nil).readers.Get().(*otlp.Reader)
		points, got := &otlpPoints{Reader: r}, 0
		for r.Reset(all, false); ; {
			s, fault, more := points.NextSample()
			if !more {
				break
			}
			if got++; (s == nil) == (fault == nil) {
				t.Fatalf("sample %v and fault %v", s, fault)
			}
		}
		if got != all.DataPointCount() {
			t.Fatalf("%d points were read or rejected, of %d", got, all.DataPointCount())
		}
	})
}
