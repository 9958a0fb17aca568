package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Rate limit of requests that set a first replica. They have one of their own: a thousand
// autoscalers may wake at once, and watches and Events go on.
const (
	scalesPerSecond = 50
	scalesAtOnce    = 50
)

// The ways in which the API server does not set a first replica. An error that is none of them speaks of the API
// server as a whole, and may be gone at the next attempt.
var (
	ErrHasReplicas = errors.New("the target has replicas")
	ErrForbidden   = errors.New("no right")
	ErrNoTarget    = errors.New("there is no such target")
	ErrRefused     = errors.New("the API server refuses the change")
	ErrConflict    = errors.New("others change the target")
	// ErrFails says nothing of other changes: an admission webhook that is down may be one namespace's.
	ErrFails = errors.New("the API server fails at this change")
)

// FirstReplicas sets the first replica of scaled objects.
type FirstReplicas struct {
	view   *View
	rest   rest.Interface
	pace   flowcontrol.RateLimiter
	faults changeFaults
}

// NewFirstReplicas uses the resources that the view knows.
func NewFirstReplicas(client *Client, view *View) (*FirstReplicas, error) {
	config := client.REST()
	config.QPS = -1 // see pace
	own, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of scale subresources: %w", err)
	}
	return &FirstReplicas{view: view, rest: own.RESTClient(), faults: changeFaults{view.probe},
		pace: flowcontrol.NewTokenBucketRateLimiter(scalesPerSecond, scalesAtOnce)}, nil
}

// A patch (RFC 6902) of the scale subresource that applies only at 0 replicas, so several replicas
// of Sluice and the autoscaler's controller can't undo each other's change. An API server leaves
// the field out where it is 0, which is null to "test". The second spelling is for one that writes
// it.
var firstReplicaPatches = [...]string{
	`[{"op":"test","path":"/spec/replicas","value":null},{"op":"add","path":"/spec/replicas","value":1}]`,
	`[{"op":"test","path":"/spec/replicas","value":0},{"op":"add","path":"/spec/replicas","value":1}]`,
}

// doesNotApply is apiserver's message about a patch whose "test" does not hold. A policy that
// denies the change may answer with the same code, and has a message of its own.
const doesNotApply = "the server rejected our request due to an error in our request"

// Set sets the replicas of an autoscaler's target from 0 to 1. It needs the right to patch the scale subresource, and
// that to list autoscalers.
func (f *FirstReplicas) Set(ctx context.Context, a *inspect.Autoscaler) error {
	path, err := f.path(a)
	if err == nil {
		err = f.pace.Wait(ctx)
	}
	if err == nil {
		err = f.exists(ctx, a)
	}
	if err != nil {
		return err
	}
	right := fmt.Sprintf("the right to patch the scale subresource of %s is missing (chart: wake.kinds)", a.TargetKind)
	for _, patch := range firstReplicaPatches {
		err = f.rest.Patch(types.JSONPatchType).AbsPath(path).MaxRetries(0).
			SetHeader("Accept", "application/json").Body([]byte(patch)).Do(ctx).Error()
		if err = f.faults.sorted(err, ErrHasReplicas, right); !errors.Is(err, ErrHasReplicas) {
			return err
		}
	}
	return err
}

// exists checks that the API server still has the autoscaler. After an outage the view may lag behind, and
// the namespace be another one of its name, whose target no autoscaler wakes.
func (f *FirstReplicas) exists(ctx context.Context, a *inspect.Autoscaler) error {
	body, err := f.rest.Get().AbsPath(autoscalerPath, a.Namespace, "horizontalpodautoscalers").
		Param("fieldSelector", "metadata.name="+a.Name).MaxRetries(0).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json").Do(ctx).Raw()
	if err != nil {
		return f.faults.sorted(err, ErrConflict, "the right to list horizontalpodautoscalers is missing")
	}
	var found metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &found); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	is := func(o metav1.PartialObjectMetadata) bool { return o.Name == a.Name && string(o.UID) == a.UID }
	if !slices.ContainsFunc(found.Items, is) {
		return fmt.Errorf("%w: the autoscaler was deleted", ErrConflict)
	}
	return nil
}

// path is the path of the target's scale subresource.
func (f *FirstReplicas) path(a *inspect.Autoscaler) (string, error) {
	version, err := schema.ParseGroupVersion(a.TargetAPIVersion)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoTarget, err)
	}
	spelling := a.TargetKind
	if version.Group != "" {
		spelling += "." + version.Group
	}
	r, err := f.view.resources.find(spelling)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoTarget, err)
	}
	root := "/apis/" + r.kind.GroupVersion().String()
	if r.kind.Group == "" {
		root = "/api/" + r.kind.Version
	}
	return strings.Join([]string{root, "namespaces", a.Namespace, r.resource.Resource, a.TargetName, "scale"}, "/"), nil
}

// changeFaults sorts the errors of changes.
type changeFaults struct{ probe *healthProbe }

// sorted sorts the error of a patch. untrue is the error of a "test" that does not hold, right says which right
// allows the patch.
func (f changeFaults) sorted(err, untrue error, right string) error {
	if f.hangsAlone(err) {
		return fmt.Errorf("%w: no answer in time, while it answers others", ErrFails)
	}
	status := apierrors.APIStatus(nil)
	if err == nil || !errors.As(err, &status) {
		return err
	}
	switch code, message := status.Status().Code, status.Status().Message; {
	case code == http.StatusUnprocessableEntity && message == doesNotApply:
		return untrue
	case strings.HasPrefix(message, "admission webhook "): // it chooses the code
		return fmt.Errorf("%w: %s", ErrRefused, cause(err))
	case code == http.StatusForbidden && apierrors.IsForbidden(err) &&
		strings.Contains(err.Error(), "cannot patch resource"):
		return fmt.Errorf("%w: %s: %s", ErrForbidden, right, cause(err))
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: %s", ErrNoTarget, cause(err))
	case code == http.StatusConflict:
		return fmt.Errorf("%w: %s", ErrConflict, cause(err))
	case failsAlone(err):
		return fmt.Errorf("%w: %s", ErrFails, cause(err))
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return err
	}
	return fmt.Errorf("%w: %s", ErrRefused, cause(err))
}

// hangsAlone reports whether a request has no answer in time though the API server responds: one that waits for an
// admission webhook. The probe notices a server that does not respond sooner than an attempt ends (wake.patience).
func (f changeFaults) hangsAlone(err error) bool {
	down, _ := f.probe.outage()
	return errors.Is(err, context.DeadlineExceeded) && down.IsZero()
}

// failsAlone reports whether the API server says that it failed at this request, as it does where an admission webhook
// cannot be called. Other answers with the code 500 are of its storage, or of a load balancer before it.
func failsAlone(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonInternalError &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
