package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// zeroSync is the time between two syncs of the autoscaler's controller: Kubernetes has 15 s.
const zeroSync = 5 * time.Second

// newZeroPlane is a control plane whose autoscalers may have minReplicas 0, as Kubernetes 1.37 has
// it by default.
func newZeroPlane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	cfg := controlplane.DefaultConfig()
	cfg.FeatureGates, cfg.HPASync = "HPAScaleToZero=true", zeroSync
	return controlplane.New(t, cfg)
}

// worker is a namespace with the documentation's example of an autoscaler at zero, and a pod that
// pushes its metric.
type worker struct {
	*cluster
	ns   string
	from netip.Addr
}

// worker waits until the autoscaler has scaled its target to zero. It does so at once, not after
// the example's 30 s.
func (c *cluster) worker(t *testing.T, name string, edits ...func(manifest string) string) *worker {
	t.Helper()
	w := c.producer(t, name)
	w.apply(t, append(edits, noStabilization)...)
	w.wantZero(t)
	return w
}

// producer is a worker without a target and an autoscaler so far.
func (c *cluster) producer(t *testing.T, name string) *worker {
	t.Helper()
	w := &worker{cluster: c, ns: c.Namespace(t, name)}
	w.from = addressOf(t, c.pod(t, w.ns, "producer", "default"))
	w.push(t, "0")
	return w
}

// apply applies the target and the example of an autoscaler, which has the target's name here.
func (w *worker) apply(t *testing.T, edits ...func(manifest string) string) {
	t.Helper()
	autoscaler := strings.Replace(example(t, "hpa-from-zero.yaml", w.ns), "name: worker-from-zero\n", "name: worker\n", 1)
	manifest := deployment("worker") + "\n---\n" + autoscaler
	for _, edit := range edits {
		manifest = edit(manifest)
	}
	w.Apply(t, w.ns, manifest)
}

func replace(before, after string) func(string) string {
	return func(manifest string) string { return strings.ReplaceAll(manifest, before, after) }
}

var (
	noStabilization = replace("stabilizationWindowSeconds: 30", "stabilizationWindowSeconds: 0")
	withoutWake     = replace(`sluice.dev/wake: "true"`, `other: "true"`)
)

func (w *worker) push(t *testing.T, value string) {
	t.Helper()
	w.cluster.push(t, w.from, http.MethodPut, "/v1/namespaces/"+w.ns+"/external/queue_depth?label=queue=mail", value, http.StatusOK)
}

// wantZero waits until the autoscaler says that it has scaled its target to zero.
func (w *worker) wantZero(t *testing.T) {
	t.Helper()
	within(t, func() error {
		if n := w.replicas(t); n != 0 {
			return fmt.Errorf("%d replicas, want 0", n)
		}
		status := w.autoscaler(t).Status
		if status.DesiredReplicas != 0 || !has(status, autoscaling.ScaledToZero, core.ConditionTrue) {
			return fmt.Errorf("status %+v, want 0 and %s", status, autoscaling.ScaledToZero)
		}
		return nil
	})
}

func has(status autoscaling.HorizontalPodAutoscalerStatus, condition autoscaling.HorizontalPodAutoscalerConditionType, value core.ConditionStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c autoscaling.HorizontalPodAutoscalerCondition) bool {
		return c.Type == condition && c.Status == value
	})
}

func (w *worker) autoscaler(t *testing.T) *autoscaling.HorizontalPodAutoscaler {
	t.Helper()
	hpa, err := w.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(w.ns).Get(t.Context(), "worker", metav1.GetOptions{})
	must(t, err)
	return hpa
}

// replicas are those that the target shall have; -1: it does not exist.
func (w *worker) replicas(t *testing.T) int32 {
	t.Helper()
	ref := w.autoscaler(t).Spec.ScaleTargetRef
	body, err := w.Get(t.Context(), "/apis/"+ref.APIVersion+"/namespaces/"+w.ns+"/"+strings.ToLower(ref.Kind)+"s/"+ref.Name+"/scale")
	if err != nil {
		return -1
	}
	var scale struct{ Spec struct{ Replicas int32 } }
	must(t, json.Unmarshal(body, &scale))
	return scale.Spec.Replicas
}

// events are the messages of Sluice's Events on the autoscaler, each as often as it happened.
func (w *worker) events(t *testing.T, reason string) (messages []string) {
	t.Helper()
	list, err := w.Kubernetes.CoreV1().Events(w.ns).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=HorizontalPodAutoscaler,source=sluice,reason=" + reason})
	must(t, err)
	for _, one := range list.Items {
		messages = append(messages, slices.Repeat([]string{one.Message}, int(one.Count))...)
	}
	return messages
}

// A plain autoscaler goes to zero by Sluice's explicit 0 and comes back at its next sync. Without
// the annotation Sluice plays no part in that.
func scalesToZeroAndBack(t *testing.T, c *cluster) {
	w := c.worker(t, "plain", withoutWake)
	within(t, func() error { // from the first sync at zero on
		if out := c.Kubectl(t, "get", "hpa", "-n", w.ns, "worker", "--no-headers"); !strings.Contains(out, "-9223372036854775808m/10 (avg)") {
			return fmt.Errorf("kubectl get hpa says %q: docs/troubleshooting.md has another text", out)
		}
		return nil
	})
	w.push(t, "35")
	c.wantReplicas(t, w.ns, "worker", 4)
	c.noWarnings(t, w.ns, "worker")
	w.push(t, "0")
	w.wantZero(t)
	if events := w.events(t, "Woken"); len(events) > 0 {
		t.Errorf("Events %q", events)
	}
}
