package kind

import (
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func TestEveryKindHasABehaviour(t *testing.T) {
	for _, k := range metric.Kinds() {
		if int(k) >= len(behaviours) || behaviours[k] == nil {
			t.Errorf("kind %s has no row in behaviours", k)
		}
	}
}
