package kind

import (
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A clock that was told wrongly goes back, so a gauge's level may come before one that is in the window, and before the
// window.
func TestLevelsThatGoBack(t *testing.T) {
	var g gaugeStats
	g.begin(&window.View{Span: &window.Span{Window: 10 * time.Second}}, window.Moment{At: 100 * time.Second}, time.Second)
	g.addLevels([]level{{at: -20, value: 1}, {at: -5, value: 2}})
	g.addLevels([]level{{at: -20, value: 1}, {at: -8, value: 2}, {at: -12, value: 3}})
	if v, ok := g.stat(metric.Max); !ok || v < 5 {
		t.Errorf("%v %v, want at least 5", v, ok)
	}
}
