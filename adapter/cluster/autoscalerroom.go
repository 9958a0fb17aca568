package cluster

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// Bounds of autoscalers' metrics. The API server bounds a whole object only, by 1.5 MiB. The metrics of all autoscalers
// are kept, compared with each other and read every few seconds.
const (
	// maxAutoscalerSpec bounds the spec of an autoscaler whose metrics are known.
	maxAutoscalerSpec = 64 << 10
	// maxAutoscalerRoom are the bytes that the metrics of all autoscalers may take.
	maxAutoscalerRoom = 128 << 20
	// autoscalerMetricBytes is what a metric takes in the document, in the index and in package autoscaler, beside the
	// texts of the spec, of which there may be autoscalerTexts copies.
	autoscalerMetricBytes = 896
	autoscalerTexts       = 3
)

// takeMetrics takes the room of an autoscaler's metrics. It returns why there is none; empty: there is.
func (r *objectRoom) takeMetrics(h *autoscalingv2.HorizontalPodAutoscaler) (why string) {
	key, size, n := objectName{h.Namespace, h.Name}, h.Spec.Size(), int64(0)
	if metrics := len(h.Spec.Metrics); metrics > 0 {
		n = int64(metrics*autoscalerMetricBytes + size*autoscalerTexts)
	}
	switch {
	case size > maxAutoscalerSpec:
		r.free(key)
		return fmt.Sprintf("the spec has %d bytes; must have at most %d", size, maxAutoscalerSpec)
	case !r.take(key, n):
		return "the autoscalers of the namespace have more metrics than Sluice has memory for; must be fewer"
	}
	return ""
}
