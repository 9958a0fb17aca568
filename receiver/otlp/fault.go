package otlp

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// Fault is why a data point is no sample. One whose Reason is metric.Applied is none.
type Fault struct {
	Reason  metric.Reason
	Message string // for the sender; what the client said is quoted in it
}

// fail sets the fault of the data point under way.
func (r *Reader) fail(reason metric.Reason, format string, args ...any) bool {
	if r.Fault.Reason = reason; r.Quiet {
		return false
	}
	r.Fault.Message = fmt.Sprintf("%q: ", clip(r.metric.name)) + fmt.Sprintf(format, args...)
	return false
}

// clip keeps what a client sent from filling an answer.
func clip(s string) string { return metric.Truncate(s, 256) }
