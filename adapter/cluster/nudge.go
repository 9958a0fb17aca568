package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/document"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// ErrNotCounted is the error of a nudge that did not become a new generation of the autoscaler.
var ErrNotCounted = errors.New("the API server counts no generations of autoscalers (feature gate HPAGeneration)")

// Nudges change the spec of autoscalers without changing what it means: the controller looks at a new
// generation at once. The last policy of behavior.scaleUp stands there twice, or once again: the controller
// takes the largest (or smallest) of the policies' proposals, and two of a kind propose the same. Where there
// is no behavior, a nudge writes out its default policies, and the API server the other defaults
// (docs/adr/0085).
type Nudges struct {
	rest   rest.Interface
	faults changeFaults
}

// NewNudges makes a client without a rate limit: wake.Nudger paces nudges.
func NewNudges(client *Client, view *View) (*Nudges, error) {
	config := client.REST()
	config.QPS = -1
	own, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of autoscalers: %w", err)
	}
	return &Nudges{rest: own.RESTClient(), faults: changeFaults{view.probe}}, nil
}

// jsonPatch is a step of a patch (RFC 6902).
type jsonPatch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// autoscalerPath is the path of all namespaces' autoscalers.
const autoscalerPath = "/apis/autoscaling/v2/namespaces"

const (
	behaviorPath = "/spec/behavior"
	policiesPath = behaviorPath + "/scaleUp/policies"
)

// Nudge has the controller look at an autoscaler, and returns the autoscaler's new generation. The patch
// applies only to the policies of the document, so one of several replicas of Sluice applies it, and only to the
// autoscaler that has the document's UID.
func (n *Nudges) Nudge(ctx context.Context, a *inspect.Autoscaler) (int64, error) {
	generation, err := n.patch(ctx, a, nudge(a))
	if err == nil && generation <= a.Generation {
		return 0, ErrNotCounted
	}
	return generation, err
}

// TakeBack removes what nudges have left.
func (n *Nudges) TakeBack(ctx context.Context, a *inspect.Autoscaler) error {
	patch := nudge(a) // a policy that stands there twice stands there once again
	if a.Mark == inspect.MarkedBehavior {
		patch = []jsonPatch{{"test", policiesPath, a.ScaleUp.Policies}, {"remove", behaviorPath, nil}}
	}
	_, err := n.patch(ctx, a, patch)
	return err
}

// nudge is the patch between a policy twice and once.
func nudge(a *inspect.Autoscaler) []jsonPatch {
	if a.ScaleUp == nil {
		return []jsonPatch{{"test", behaviorPath, nil},
			{"add", behaviorPath, map[string]any{"scaleUp": map[string]any{"policies": inspect.DefaultScaleUp}}}}
	}
	now := a.ScaleUp.Policies
	if document.PolicyTwice(now) {
		return []jsonPatch{{"test", policiesPath, now}, {"replace", policiesPath, now[:len(now)-1]}}
	}
	return []jsonPatch{{"test", policiesPath, now}, {"replace", policiesPath, append(slices.Clip(now), now[len(now)-1])}}
}

func (n *Nudges) patch(ctx context.Context, a *inspect.Autoscaler, steps []jsonPatch) (generation int64, err error) {
	if a.ScaleUp != nil && len(a.ScaleUp.Policies) >= document.MaxPolicies {
		return 0, fmt.Errorf("%w: behavior.scaleUp has %d policies or more; must have fewer", ErrRefused,
			document.MaxPolicies)
	}
	// After an outage the view may lag behind, and the name be another autoscaler's, in another namespace.
	steps = append([]jsonPatch{{"test", "/metadata/uid", a.UID}}, steps...)
	body, err := json.Marshal(steps)
	if err != nil {
		return 0, err
	}
	path := strings.Join([]string{autoscalerPath, a.Namespace, "horizontalpodautoscalers", a.Name}, "/")
	answer := n.rest.Patch(types.JSONPatchType).AbsPath(path).Param("fieldManager", document.FieldManager).MaxRetries(0).
		SetHeader("Accept", "application/json").Body(body).Do(ctx)
	if err := answer.Error(); err != nil {
		return 0, n.faults.sorted(err, ErrConflict, "the right to patch horizontalpodautoscalers is missing (chart: instant.enabled)")
	}
	text, err := answer.Raw()
	var is metav1.PartialObjectMetadata
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err != nil {
		return 0, fmt.Errorf("read the API server's answer: %w", err)
	}
	return is.Generation, nil
}
