package explain

import (
	"fmt"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// rollUpSteps says how many pods a value is rolled up from. Other values have no such step.
func rollUpSteps(m *inspect.AutoscalerMetric, r *Reading) []string {
	if len(r.Values) != 1 || r.Values[0].Pods.Of == 0 {
		return nil
	}
	n := r.Values[0].Pods
	return []string{fmt.Sprintf("%s %s has no series of its own: the value is rolled up from its pods, %d of %d with a value",
		m.ObjectKind, m.ObjectName, n.With, n.Of)}
}
