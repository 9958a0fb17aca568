package cluster

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wakes are scenarios of an autoscaler with the annotation sluice.dev/wake.
var wakes = []scenario{
	{"ScalesToZeroAndBack", scalesToZeroAndBack},
	{"WakesOnThePush", wakesOnThePush},
	{"WakesACustomResource", wakesACustomResource},
	{"APulseGoesBackToZero", aPulseGoesBackToZero},
	{"APausedTargetStaysPaused", aPausedTargetStaysPaused},
	{"NeverScalesDown", neverScalesDown},
	{"SaysThatARightIsMissing", saysThatARightIsMissing},
	{"ADeletedTargetComesBack", aDeletedTargetComesBack},
}

func TestWake(t *testing.T) {
	t.Parallel()
	plane := newZeroPlane(t)
	plane.Apply(t, "", workersDefinition) // before Sluice, which reads the kinds at its start
	c := installWith(t, plane, "wake.yaml")
	c.sideBySide(t, wakes)
	t.Run("WaitsForTheAPIServer", func(t *testing.T) { waitsForTheAPIServer(t, c) })
}

// wantWoken pushes a value, and waits until Sluice says that it has given the target its first replica. The
// autoscaler's next sync may have come first; then the target goes back to zero and the value is pushed again.
func (w *worker) wantWoken(t *testing.T, value string) {
	t.Helper()
	woken := len(w.events(t, "Woken"))
	for range 5 {
		w.push(t, value)
		within(t, func() error {
			if w.replicas(t) == 0 {
				return errors.New("not woken\n" + w.Kubectl(t, "describe", "hpa", "-n", w.ns, "worker"))
			}
			return nil
		})
		for end := time.Now().Add(eventDelay); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if n := len(w.events(t, "Woken")); n > woken {
				if n != woken+1 {
					t.Fatalf("%d Events Woken, want %d", n, woken+1)
				}
				return
			}
		}
		w.push(t, "0")
		w.wantZero(t)
		time.Sleep(12 * time.Second) // the cooldown
	}
	t.Fatal("the autoscaler was first, five times")
}

// eventDelay is how long an Event is waited for once the target has a replica.
const eventDelay = 15 * time.Second

func wakesOnThePush(t *testing.T, c *cluster) {
	w := c.worker(t, "wakes")
	w.wantState(t, "armed", "")
	e := &explained{cluster: c, ns: w.ns, kubeconfig: c.Kubeconfig}
	if code, out, fault := e.explain(t, "hpa/worker"); code != 0 || !strings.Contains(out, "Wake: armed") {
		t.Errorf("explain: exit code %d\n%s%s", code, out, fault)
	}
	w.wantWoken(t, "35")
	if events := w.events(t, "Woken"); !slices.Equal(events, []string{
		`Set Deployment/worker from 0 to 1 replica: External metric "queue_depth" is 35. The autoscaler sets all others.`}) {
		t.Errorf("Events %q", events)
	}
	c.wantReplicas(t, w.ns, "worker", 4)
	w.wantState(t, "running", "")
	c.noWarnings(t, w.ns, "worker")
	w.push(t, "0")
	w.wantZero(t)
	w.wantState(t, "armed", "")
}

// wantState waits for what Sluice says that it makes of the annotation.
func (w *worker) wantState(t *testing.T, state, why string) {
	t.Helper()
	within(t, func() error {
		out, err := w.TryKubectl(t, "get", "-n", w.ns, "autoscalers.inspect.sluice.dev/worker", "-o", "jsonpath={.wake.state} {.wake.why}")
		if got, because, _ := strings.Cut(out, " "); err != nil || got != state || !strings.Contains(because, why) {
			return fmt.Errorf("%q, %v; want %q with %q", out, err, state, why)
		}
		return nil
	})
}

// workersDefinition is a custom resource with a scale subresource.
const workersDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workers.e2e.sluice.dev}
spec:
  group: e2e.sluice.dev
  scope: Namespaced
  names: {kind: Worker, plural: workers, singular: worker}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
`

func wakesACustomResource(t *testing.T, c *cluster) {
	w := c.worker(t, "custom", replace("apiVersion: apps/v1\nkind: Deployment", "apiVersion: e2e.sluice.dev/v1\nkind: Worker\nstatus: {selector: app=worker, replicas: 1}"),
		replace("apiVersion: apps/v1, kind: Deployment", "apiVersion: e2e.sluice.dev/v1, kind: Worker"))
	w.wantWoken(t, "5")
}

// A value that is gone before the autoscaler's next sync wakes the target all the same. The
// autoscaler, whose recommendations were 0 all the time, then takes the replica away without its
// stabilization window. A value that lasts until a sync begins that window.
func aPulseGoesBackToZero(t *testing.T, c *cluster) {
	w := c.producer(t, "pulse")
	w.apply(t, replace("stabilizationWindowSeconds: 30", "stabilizationWindowSeconds: 20"))
	w.wantZero(t)
	time.Sleep(20 * time.Second) // of recommendations of 0
	w.wantWoken(t, "5")
	w.push(t, "0")
	w.wantZero(t)
	time.Sleep(12 * time.Second) // the cooldown, and not until a sync
	w.wantWoken(t, "5")
	within(t, func() error {
		if hpa := w.autoscaler(t); hpa.Status.CurrentReplicas != 1 {
			return fmt.Errorf("the status says %d replicas", hpa.Status.CurrentReplicas)
		}
		return nil
	})
	w.push(t, "0")
	began := time.Now()
	w.wantZero(t)
	if took := time.Since(began); took < 15*time.Second {
		t.Errorf("back at zero after %v, want the stabilization window", took)
	}
}

// A target that a person set to zero stays there, whatever its metric.
func aPausedTargetStaysPaused(t *testing.T, c *cluster) {
	w := c.producer(t, "paused")
	w.push(t, "15")
	w.apply(t, noStabilization)
	c.wantReplicas(t, w.ns, "worker", 2)
	c.Kubectl(t, "scale", "-n", w.ns, "deployment/worker", "--replicas=0")
	within(t, func() error {
		if status := w.autoscaler(t).Status; !has(status, autoscaling.ScalingActive, core.ConditionFalse) {
			return fmt.Errorf("status %+v", status)
		}
		return nil
	})
	w.push(t, "0")
	w.push(t, "25")
	c.steady(t, w.ns, "worker", 0, 3*zeroSync)
	if events := w.events(t, "Woken"); len(events) > 0 {
		t.Errorf("Events %q", events)
	}
}

// The status of an autoscaler is up to a sync old: the target has replicas, and keeps them.
func neverScalesDown(t *testing.T, c *cluster) {
	w := c.worker(t, "never")
	for range 5 {
		c.Kubectl(t, "scale", "-n", w.ns, "deployment/worker", "--replicas=3")
		w.push(t, "30")
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if n := w.replicas(t); n != 3 {
				t.Fatalf("%d replicas, want 3 as a person set them", n)
			}
		}
		w.push(t, "0")
		w.wantZero(t)
	}
	if events := append(w.events(t, "Woken"), w.events(t, "CannotWake")...); len(events) > 0 {
		t.Errorf("Events %q", events)
	}
	if n := c.sluice.Metrics()[`sluice_wakes_total{result="awake"}`]; n == 0 {
		t.Error("no attempt found that the target has replicas: the test proves nothing")
	}
}

// The chart's role has no right on ReplicaSets. The autoscaler wakes the target at its next sync.
func saysThatARightIsMissing(t *testing.T, c *cluster) {
	w := c.worker(t, "rights", replace("kind: Deployment", "kind: ReplicaSet"))
	w.push(t, "5")
	within(t, func() error {
		events := w.events(t, "CannotWake")
		if len(events) != 1 || !strings.Contains(events[0], "Cannot set the first replica of ReplicaSet/worker") ||
			!strings.Contains(events[0], `cannot patch resource "replicasets/scale" in API group "apps"`) {
			return fmt.Errorf("Events %q; %s", events, w.Kubectl(t, "get", "-n", w.ns, "autoscalers.inspect.sluice.dev/worker", "-o", "jsonpath={.wake}"))
		}
		if n := w.replicas(t); n != 1 {
			return fmt.Errorf("%d replicas, want 1", n)
		}
		return nil
	})
	if !c.saidLine("cannot set the first replica", w.ns, "replicasets") {
		t.Error("the log does not say that a right is missing")
	}
}

// The target is deleted while it stands at zero, and made anew.
func aDeletedTargetComesBack(t *testing.T, c *cluster) {
	w := c.worker(t, "deleted")
	c.Kubectl(t, "delete", "-n", w.ns, "deployment/worker")
	w.push(t, "5")
	w.wantState(t, "failing", "not found")
	w.push(t, "0")
	c.Apply(t, w.ns, strings.ReplaceAll(deployment("worker"), "replicas: 1", "replicas: 0"))
	c.steady(t, w.ns, "worker", 0, time.Second)
	w.push(t, "5")
	within(t, func() error {
		if n := w.replicas(t); n != 1 {
			return fmt.Errorf("%d replicas, want 1", n)
		}
		return nil
	})
}

// The API server is frozen, and then away, while values become positive.
func waitsForTheAPIServer(t *testing.T, c *cluster) {
	frozen, away := c.worker(t, "frozen"), c.worker(t, "away")
	c.FreezeAPIServer(t, func() {
		frozen.push(t, "5")
		time.Sleep(7 * time.Second) // longer than an attempt waits
	})
	within(t, func() error { return frozen.wantOne(t) })
	c.KillAPIServer(t)
	away.push(t, "5")
	time.Sleep(2 * time.Second)
	c.StartAPIServer(t)
	within(t, func() error { return away.wantOne(t) })
	if !c.saidLine("does not answer an attempt to wake a target") {
		t.Error("the log does not say that the API server did not answer")
	}
}

func (w *worker) wantOne(t *testing.T) error {
	t.Helper()
	if n := w.replicas(t); n != 1 {
		return fmt.Errorf("%d replicas, want 1", n)
	}
	return nil
}

// wakePushes: docs/performance.md has the command and what it printed.
var wakePushes = flag.Int("wakes", 0, "number of pushes that TestWakeLatency measures; 0: it is skipped")

// A push's time to the first replica, as a client of the API server sees it in a watch. The
// autoscaler's controller syncs every 15 s, as everywhere.
func TestWakeLatency(t *testing.T) {
	t.Parallel()
	if *wakePushes == 0 {
		t.Skip("skipped: it takes two minutes; -wakes 50 runs it")
	}
	cfg := controlplane.DefaultConfig()
	cfg.FeatureGates, cfg.HPASync = "HPAScaleToZero=true", 15*time.Second
	c := installWith(t, controlplane.New(t, cfg), "wake.yaml")
	const many = 10
	var took []time.Duration
	rounds, workers := max(*wakePushes/many, 1), make([]*worker, min(*wakePushes, many))
	for i := range workers {
		workers[i] = c.producer(t, "latency")
		workers[i].apply(t, noStabilization)
	}
	for range rounds {
		for _, w := range workers {
			w.wantZero(t)
		}
		time.Sleep(2 * time.Second) // a sync of all is over
		for _, w := range workers {
			took = append(took, w.untilFirstReplica(t))
		}
		for _, w := range workers {
			w.push(t, "0")
		}
	}
	woken := c.sluice.Metrics()[`sluice_wakes_total{result="woken"}`]
	slices.Sort(took)
	t.Logf("%d pushes, %v woken by Sluice: p50 %v, p99 %v, worst %v", len(took), woken, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	if median := took[len(took)/2]; median > time.Second {
		t.Errorf("the median is %v", median)
	}
}

// untilFirstReplica pushes a value and returns the time until a watch shows the first replica.
func (w *worker) untilFirstReplica(t *testing.T) time.Duration {
	t.Helper()
	deployments := w.Kubernetes.AppsV1().Deployments(w.ns)
	now, err := deployments.Get(t.Context(), "worker", metav1.GetOptions{})
	must(t, err)
	watch, err := deployments.Watch(t.Context(), metav1.ListOptions{ResourceVersion: now.ResourceVersion})
	must(t, err)
	defer watch.Stop()
	began := time.Now()
	w.push(t, "5")
	for event := range watch.ResultChan() {
		if of, is := event.Object.(*apps.Deployment); is && *of.Spec.Replicas > 0 {
			return time.Since(began)
		}
	}
	t.Fatal("the watch ended")
	return 0
}
