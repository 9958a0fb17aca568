package otlp

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// Fault says why a data point is rejected. With the Reason metric.Applied it is none.
type Fault struct {
	Reason  metric.Reason
	Message string // for the sender; the client's text is quoted in it
}

// fail sets the fault of the current data point.
func (r *Reader) fail(reason metric.Reason, format string, args ...any) bool {
	if r.Fault.Reason = reason; r.Quiet {
		return false
	}
	r.Fault.Message = fmt.Sprintf("%q: ", truncate(r.metric.name)) + fmt.Sprintf(format, args...)
	return false
}

// truncate truncates a client's text for an answer.
func truncate(s string) string { return metric.Truncate(s, 256) }
