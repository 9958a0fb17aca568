package document

import (
	"encoding/json"
	"slices"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager is the field manager of nudges. Each process that patches an autoscaler has a name there.
const FieldManager = "sluice-instant"

// PolicyTwice reports whether the last policy stands there twice.
func PolicyTwice(all []inspect.ScalingPolicy) bool {
	n := len(all)
	return n > 1 && all[n-1] == all[n-2]
}

// markOf finds what nudges have left in an autoscaler.
func markOf(of *autoscalingv2.HorizontalPodAutoscaler) inspect.Mark {
	if of.Spec.Behavior == nil || of.Spec.Behavior.ScaleUp == nil {
		return inspect.Unmarked
	}
	i := slices.IndexFunc(of.ManagedFields, func(one metav1.ManagedFieldsEntry) bool { return one.Manager == FieldManager })
	if i < 0 || of.ManagedFields[i].FieldsV1 == nil {
		return inspect.Unmarked
	}
	var owned struct {
		Spec struct {
			Behavior map[string]json.RawMessage `json:"f:behavior"`
		} `json:"f:spec"`
	}
	if json.Unmarshal(of.ManagedFields[i].FieldsV1.GetRawBytes(), &owned) != nil {
		return inspect.Unmarked
	}
	switch _, whole := owned.Spec.Behavior["."]; {
	case whole:
		return inspect.MarkedBehavior
	case len(owned.Spec.Behavior) > 0 && PolicyTwice(rulesDocument(of.Spec.Behavior.ScaleUp).Policies):
		return inspect.MarkedPolicy
	}
	return inspect.Unmarked
}
