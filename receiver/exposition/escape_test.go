package exposition

import (
	"testing"

	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/encoding/protodelim"

	"bytes"

	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-metrics/sluice/metric"
)

func TestEscape(t *testing.T) {
	f := Family{Name: "my.metric", Type: GaugeType, Metrics: []Metric{{Labels: []metric.Label{{Key: "a.b", Value: "ä.c"}, {Key: "a:c", Value: "1"}, {Key: "a_b", Value: "2"}}, Value: 1}}}
	for e, want := range map[Escaping]string{
		Underscores: "# TYPE my_metric gauge\nmy_metric{a_b=\"ä.c\",a_c=\"1\"} 1\n",
		AllowUTF8:   "# TYPE \"my.metric\" gauge\n{\"my.metric\",\"a.b\"=\"ä.c\",\"a:c\"=\"1\",a_b=\"2\"} 1\n",
		Dots:        "# TYPE my_dot_metric gauge\nmy_dot_metric{a__b=\"2\",a_c=\"1\",a_dot_b=\"ä.c\"} 1\n",
		Values:      "# TYPE U__my_2e_metric gauge\nU__my_2e_metric{U__a_2e_b=\"ä.c\",a_b=\"2\",a_c=\"1\"} 1\n",
	} {
		if got := string(Append(nil, Text, *Escape(&f, e))); got != want {
			t.Errorf("%v:\n%swant\n%s", e, got, want)
		}
		if parsed, ok := ParseEscaping(e.String()); !ok || parsed != e {
			t.Errorf("%v is read as %v", e, parsed)
		}
		var m dto.MetricFamily
		if err := protodelim.UnmarshalFrom(bytes.NewReader(Append(nil, Protobuf, *Escape(&f, e))), &m); err != nil || m.GetName() != model.EscapeName(f.Name, escapings[e].scheme) {
			t.Errorf("%v: %v %v", e, err, &m)
		}
	}
	if f.Name != "my.metric" || f.Metrics[0].Labels[0].Key != "a.b" {
		t.Errorf("the family itself was changed: %+v", f)
	}
	plain := Family{Name: "a:b", Metrics: []Metric{{Labels: []metric.Label{{Key: "c", Value: "d.e"}}}}}
	if Escape(&plain, Underscores) != &plain {
		t.Error("a family without anything to escape was copied")
	}
}
