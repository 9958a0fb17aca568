package valuelist

import (
	"math"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/metrics/pkg/apis/custom_metrics"
)

// Each item has its own window, also behind one that is not answered.
func TestWindowOfEachItem(t *testing.T) {
	minute, none := int64(60), int64(-1)
	points := []metric.Point{
		{Object: pod("nan"), Value: metric.Float(math.NaN()), Window: time.Minute},
		{Object: pod("a"), Value: metric.Int(1), Window: time.Minute},
		{Object: pod("b"), Value: metric.Int(1), Window: time.Minute},
		{Object: pod("c"), Value: metric.Int(1)},
		{Object: pod("d"), Value: metric.Int(1), Window: time.Minute},
	}
	l, err := NewCustom(Custom{Object: custom_metrics.AllObjects}, points)
	if err != nil || len(l.Points) != 4 {
		t.Fatal(l, err)
	}
	list := l.GetObject().(*custom_metrics.MetricValueList)
	for i, want := range []int64{minute, minute, none, minute} {
		got := none
		if w := list.Items[i].WindowSeconds; w != nil {
			got = *w
		}
		if got != want {
			t.Errorf("item %d: %d seconds, want %d", i, got, want)
		}
	}
}
