package cluster

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/binaries"
	"github.com/sluice-metrics/sluice/e2e/controlplane"
	apps "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// countsGenerations reports whether the control plane counts the generations of autoscalers: since 1.37.
func countsGenerations() bool { return !strings.HasPrefix(binaries.KubernetesVersion, "v1.36.") }

// TestInstant has a controller that syncs every ten minutes, so each change of replicas below is that of a nudge.
func TestInstant(t *testing.T) {
	t.Parallel()
	cfg := controlplane.DefaultConfig()
	cfg.FeatureGates = "HPAScaleToZero=true"
	if !countsGenerations() { // and its controller looks at a new autoscaler at the next sync
		withoutGenerations(t, installWith(t, controlplane.New(t, cfg), "instant.yaml"))
		return
	}
	cfg.HPASync = 10 * time.Minute
	c := installWith(t, controlplane.New(t, cfg), "instant.yaml")
	c.sideBySide(t, []scenario{
		{"MovesAtThePush", movesAtThePush}, {"WithBehavior", movesWithBehavior}, {"FromZero", goesStraightToN},
		{"AppliedAgain", appliedAgain}, {"Pods", movesOnPods}, {"Others", othersAreLeftAlone}, {"AdmissionForbids", admissionForbidsNudges},
	})
}

const instantAutoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: worker, annotations: {sluice.dev/instant: "true"}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  minReplicas: 1
  maxReplicas: 20
  metrics:
  - type: External
    external: {metric: {name: queue_depth}, target: {type: AverageValue, averageValue: "10"}}
`

const instantBehavior = `
  behavior:
    scaleUp: {policies: [{type: Pods, value: 20, periodSeconds: 15}]}
    scaleDown: {stabilizationWindowSeconds: 0}
`

// instantWorker has a target with an autoscaler that its controller has looked at.
func (c *cluster) instantWorker(t *testing.T, name, autoscaler string) *worker {
	t.Helper()
	w := c.producer(t, name)
	w.push(t, "5")
	w.Apply(t, w.ns, deployment("worker")+"\n---\n"+autoscaler)
	within(t, func() error {
		if status := w.autoscaler(t).Status; status.DesiredReplicas != 1 {
			return fmt.Errorf("status %+v", status)
		}
		return nil
	})
	return w
}

// instant is what Sluice says that it makes of the annotation.
type instant struct {
	State, Why string
	Last       *struct {
		Because            string
		From, Want, Answer int32
		Generation         int64
	}
}

func (w *worker) instant(t *testing.T) (is instant) {
	t.Helper()
	out, err := w.TryKubectl(t, "get", "-n", w.ns, "autoscalers.inspect.sluice.dev/worker", "-o", "jsonpath={.instant}")
	if err != nil {
		return instant{Why: err.Error()}
	}
	if err := json.Unmarshal([]byte(out), &is); err != nil {
		return instant{Why: out}
	}
	return is
}

func (w *worker) wantInstant(t *testing.T, state, why string) {
	t.Helper()
	within(t, func() error {
		if is := w.instant(t); is.State != state || !strings.Contains(is.Why, why) {
			return fmt.Errorf("%+v; want %s with %q", is, state, why)
		}
		return nil
	})
}

func (w *worker) annotate(t *testing.T, value string) {
	t.Helper()
	w.Kubectl(t, "annotate", "--overwrite", "-n", w.ns, "hpa", "worker", "sluice.dev/instant"+value)
}

func movesAtThePush(t *testing.T, c *cluster) {
	w := c.instantWorker(t, "instant", instantAutoscaler)
	w.push(t, "50")
	c.wantReplicas(t, w.ns, "worker", 5)
	within(t, func() error {
		is := w.instant(t)
		if is.Last == nil || is.Last.From != 1 || is.Last.Want != 5 || is.Last.Answer != 5 ||
			is.Last.Because != `External metric "queue_depth" is 50, target 10` {
			return fmt.Errorf("%+v %+v", is, is.Last)
		}
		return nil
	})
	e := &explained{cluster: c, ns: w.ns, kubeconfig: c.Kubeconfig}
	if _, out, fault := e.explain(t, "hpa/worker"); !strings.Contains(out, "Instant: ") || !strings.Contains(out, "nudged") {
		t.Errorf("explain: %s%s", out, fault)
	}
	// Twice the present number in 15 s is allowed, and 12 are asked for.
	w.push(t, "120")
	c.wantReplicas(t, w.ns, "worker", 12)
	if behavior := w.autoscaler(t).Spec.Behavior; behavior == nil {
		t.Error("the spec has no behavior: what nudged?")
	}
	w.annotate(t, "-")
	within(t, func() error {
		if behavior := w.autoscaler(t).Spec.Behavior; behavior != nil {
			return fmt.Errorf("behavior %+v is left", behavior)
		}
		return nil
	})
}

func movesWithBehavior(t *testing.T, c *cluster) {
	w := c.instantWorker(t, "behavior", instantAutoscaler+instantBehavior)
	for _, one := range []struct {
		value string
		want  int32
	}{{"50", 5}, {"200", 20}, {"30", 3}, {"31", 3}, {"70", 7}} {
		w.push(t, one.value)
		c.wantReplicas(t, w.ns, "worker", one.want)
	}
	generation := w.autoscaler(t).Generation
	w.push(t, "1000") // more than maxReplicas
	c.wantReplicas(t, w.ns, "worker", 20)
	w.push(t, "2000")
	w.wantInstant(t, "held", "maxReplicas is 20")
	if now := w.autoscaler(t).Generation; now > generation+1 {
		t.Errorf("generation %d, want %d: a nudge against maxReplicas", now, generation+1)
	}
	w.push(t, "195") // within the tolerance
	c.steady(t, w.ns, "worker", 20, time.Second)
	w.annotate(t, "-")
	within(t, func() error {
		// Not what the spec was at the first look: a controller that is slow to look is nudged before.
		if is := w.autoscaler(t).Spec.Behavior.ScaleUp.Policies; len(is) != 1 || is[0].Value != 20 {
			return fmt.Errorf("policies %+v, want one of 20 Pods", is)
		}
		return nil
	})
}

// From zero the controller goes straight to what the values ask for.
func goesStraightToN(t *testing.T, c *cluster) {
	w := c.instantWorker(t, "zero", strings.Replace(instantAutoscaler+instantBehavior, "minReplicas: 1", "minReplicas: 0", 1))
	w.push(t, "0")
	w.wantZero(t)
	w.push(t, "70")
	c.wantReplicas(t, w.ns, "worker", 7)
}

// Who applies a manifest without behavior, by the client or by the server, sees no drift and no conflict, and
// changes nothing.
func appliedAgain(t *testing.T, c *cluster) {
	w := c.instantWorker(t, "applied", instantAutoscaler)
	file := filepath.Join(t.TempDir(), "hpa.yaml")
	must(t, os.WriteFile(file, []byte(instantAutoscaler), 0o600))
	w.Kubectl(t, "apply", "--server-side", "--field-manager=flux", "--force-conflicts", "-n", w.ns, "-f", file)
	w.push(t, "50")
	c.wantReplicas(t, w.ns, "worker", 5)
	nudged := w.autoscaler(t)
	if nudged.Spec.Behavior == nil {
		t.Fatal("not nudged")
	}
	for _, flags := range [][]string{{"--server-side", "--field-manager=flux"}, {"--server-side", "--field-manager=argocd-controller", "--force-conflicts"}, {}} {
		args := append([]string{"apply", "-n", w.ns, "-f", file}, flags...)
		w.Kubectl(t, args...)
		if out, err := w.TryKubectl(t, append([]string{"diff", "-n", w.ns, "-f", file}, flags...)...); err != nil {
			t.Errorf("%v: drift\n%s%v", flags, out, err)
		}
		now := w.autoscaler(t)
		if now.Generation != nudged.Generation {
			t.Errorf("%v: generation %d, want %d; behavior %+v", flags, now.Generation, nudged.Generation, now.Spec.Behavior)
		}
	}
	w.push(t, "80")
	c.wantReplicas(t, w.ns, "worker", 8)
}

// A metric of pods, which the target's one pod pushes for the first time when the controller has found none.
func movesOnPods(t *testing.T, c *cluster) {
	w := &worker{cluster: c, ns: c.Namespace(t, "pods")}
	w.Apply(t, w.ns, deployment("worker")+"\n---\n"+strings.Replace(instantAutoscaler+instantBehavior,
		"type: External\n    external: {metric: {name: queue_depth}", "type: Pods\n    pods: {metric: {name: busy}", 1))
	pod := w.AwaitPods(t, w.ns, "app=worker", 1)[0]
	c.awaitSender(t, w.ns, pod.Name)
	within(t, func() error {
		if status := w.autoscaler(t).Status; status.CurrentReplicas != 1 {
			return fmt.Errorf("status %+v", status)
		}
		return nil
	})
	c.push(t, addressOf(t, pod), http.MethodPut, "/v1/namespaces/"+w.ns+"/pods/"+pod.Name+"/busy", "35", http.StatusOK)
	c.wantReplicas(t, w.ns, "worker", 4)
}

// KEDA's autoscalers, and those whose annotation has another value, are left alone.
func othersAreLeftAlone(t *testing.T, c *cluster) {
	w := c.instantWorker(t, "others", strings.Replace(instantAutoscaler, `sluice.dev/instant: "true"`, `sluice.dev/instant: "on"`, 1))
	w.push(t, "50")
	w.wantInstant(t, "ignored", `is "on"; must be "true"`)
	within(t, func() error {
		if events := w.events(t, "CannotNudge"); len(events) != 1 {
			return fmt.Errorf("Events %q", events)
		}
		return nil
	})
	w.Kubectl(t, "patch", "-n", w.ns, "hpa", "worker", "--type=merge", "-p",
		`{"metadata":{"annotations":{"sluice.dev/instant":"true"},"ownerReferences":[{"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject","name":"worker","uid":"1","controller":true}]}}`)
	w.wantInstant(t, "ignored", "KEDA owns its spec")
	if w.autoscaler(t).Spec.Behavior != nil {
		t.Error("the spec was changed")
	}
}

// An admission policy that forbids the change is told once, and is not tried in a loop.
func admissionForbidsNudges(t *testing.T, c *cluster) {
	w := c.instantWorker(t, "admission", instantAutoscaler)
	c.Apply(t, "", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-nudges}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [autoscaling], apiVersions: ["*"], operations: [UPDATE], resources: [horizontalpodautoscalers]}]}
  validations: [{expression: "object.spec == oldObject.spec", message: "specs are frozen"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-nudges}
spec:
  policyName: no-nudges
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}
`, w.ns))
	within(t, func() error { // until the policy is in force
		_, err := w.TryKubectl(t, "patch", "-n", w.ns, "hpa", "worker", "--type=merge", "--dry-run=server", "-p", `{"spec":{"maxReplicas":21}}`)
		if err == nil {
			return errors.New("the policy admits a change")
		}
		return nil
	})
	w.push(t, "50")
	w.wantInstant(t, "failing", "specs are frozen")
	within(t, func() error {
		if events := w.events(t, "CannotNudge"); len(events) != 1 || !strings.Contains(events[0], "specs are frozen") {
			return fmt.Errorf("Events %q", events)
		}
		return nil
	})
}

// Before Kubernetes 1.37 the annotation does nothing, and says so.
func withoutGenerations(t *testing.T, c *cluster) {
	w := c.instantWorker(t, "old", instantAutoscaler)
	w.push(t, "50")
	w.wantInstant(t, "ignored", "HPAGeneration")
	e := &explained{cluster: c, ns: w.ns, kubeconfig: c.Kubeconfig}
	if _, out, _ := e.explain(t, "hpa/worker"); !strings.Contains(out, "HPAGeneration") {
		t.Errorf("explain:\n%s", out)
	}
	if w.autoscaler(t).Spec.Behavior != nil {
		t.Error("the spec was changed")
	}
}

// nudgePushes: docs/performance.md has the command and what it printed.
var nudgePushes = flag.Int("nudges", 0, "number of pushes that TestNudgeLatency measures; 0: it is skipped")

// A push's time to another number of replicas, as a client of the API server sees it in a watch: with nudges,
// without them, with nudges of two replicas, and of many autoscalers that one push moves. The controller syncs
// every 15 s, as everywhere.
func TestNudgeLatency(t *testing.T) {
	t.Parallel()
	if *nudgePushes == 0 {
		t.Skip("skipped: it measures; -nudges 50 runs it")
	}
	cfg := controlplane.DefaultConfig()
	cfg.HPASync = 15 * time.Second
	c := installWith(t, controlplane.New(t, cfg), "instant.yaml")
	plain := strings.Replace(instantAutoscaler, `annotations: {sluice.dev/instant: "true"}`, "", 1)
	both := newPair(t, controlplane.New(t, cfg), "--instant")
	for _, one := range []struct {
		*cluster
		name, autoscaler string
		pushes           int
		within           time.Duration // a push comes at any moment between two syncs
	}{
		{c, "with", instantAutoscaler, *nudgePushes, 1},
		{c, "without", plain, (*nudgePushes + 2) / 3, cfg.HPASync},
		{both, "two-replicas", instantAutoscaler, *nudgePushes, 1},
	} {
		one.movesOne(t, one.name, one.autoscaler, one.pushes, one.within)
	}
	for _, replica := range both.replicas {
		t.Logf("of two replicas, one: %v nudges, %v times the other was first", replica.Metrics()[`sluice_nudges_total{result="nudged"}`],
			replica.Metrics()[`sluice_nudges_total{result="conflict"}`])
	}
	for qps, c := range map[int]*cluster{20: c, 200: nil} {
		if c == nil {
			cfg.ControllerQPS = qps
			c = installWith(t, controlplane.New(t, cfg), "instant.yaml")
		}
		c.movesMany(t, plain, fmt.Sprintf("300 without nudges, %d requests a second", qps))
		c.movesMany(t, instantAutoscaler, fmt.Sprintf("300 with nudges, %d requests a second", qps))
	}
}

// movesOne pushes for one autoscaler, for 5 replicas and for 1 in turn.
func (c *cluster) movesOne(t *testing.T, name, autoscaler string, pushes int, within time.Duration) {
	t.Helper()
	w := c.instantWorker(t, name, autoscaler+instantBehavior)
	resources := []string{"deployments", "horizontalpodautoscalers"}
	asked := func() (all []int) {
		for _, resource := range resources {
			n, err := c.Requests(t.Context(), resource)
			must(t, err)
			all = append(all, n)
		}
		return all
	}
	var took []time.Duration
	before := asked()
	for i := range pushes {
		time.Sleep(1500*time.Millisecond + rand.N(within)) // an autoscaler is nudged once a second
		took = append(took, w.untilReplicas(t, 1, int32(1+4*((i+1)%2)))...)
	}
	for i, now := range asked() {
		t.Logf("%s: %.1f requests a push for %s", name, float64(now-before[i])/float64(pushes), resources[i])
	}
	logLatencies(t, name, took)
}

// movesMany has 300 autoscalers of one metric, whose value then asks each for a second replica.
func (c *cluster) movesMany(t *testing.T, autoscaler, name string) {
	t.Helper()
	const many = 300
	w := c.producer(t, "many")
	w.push(t, "5")
	var manifests []string
	for i := range many {
		name := fmt.Sprint("worker-", i)
		manifests = append(manifests, deployment(name), strings.ReplaceAll(autoscaler, "name: worker", "name: "+name))
	}
	w.Apply(t, w.ns, manifests...)
	within(t, func() error {
		all, err := w.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(w.ns).List(t.Context(), metav1.ListOptions{})
		for i := range all.Items {
			if all.Items[i].Status.DesiredReplicas != 1 {
				err = fmt.Errorf("%s: %+v", all.Items[i].Name, all.Items[i].Status)
			}
		}
		return err
	})
	w.logCPU(t, name+", a minute at rest", func() { time.Sleep(time.Minute) })
	w.logCPU(t, name+", all moving", func() { logLatencies(t, name, w.untilReplicas(t, many, 2)) })
	// They would keep the controller busy.
	if err := w.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(w.ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// logCPU logs what the API server and the controllers use meanwhile.
func (w *worker) logCPU(t *testing.T, name string, during func()) {
	t.Helper()
	processes := []string{"kube-apiserver", "kube-controller-manager"}
	used := func() (all []time.Duration) {
		for _, p := range processes {
			one, err := w.CPU(p)
			must(t, err)
			all = append(all, one)
		}
		return all
	}
	before := used()
	during()
	for i, now := range used() {
		t.Logf("%s: %s used %v", name, processes[i], now-before[i])
	}
}

func logLatencies(t *testing.T, name string, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	n := len(took)
	t.Logf("%s: %d times, p50 %v, p99 %v, worst %v", name, n, took[n/2], took[n*99/100], took[n-1])
}

// untilReplicas pushes a value that asks for a number of replicas, and returns the times until a watch shows it
// at so many Deployments.
func (w *worker) untilReplicas(t *testing.T, of int, want int32) (took []time.Duration) {
	t.Helper()
	deployments := w.Kubernetes.AppsV1().Deployments(w.ns)
	now, err := deployments.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	watch, err := deployments.Watch(t.Context(), metav1.ListOptions{ResourceVersion: now.ResourceVersion})
	must(t, err)
	defer watch.Stop()
	seen := map[string]bool{}
	began := time.Now()
	w.push(t, fmt.Sprint(10*want))
	for event := range watch.ResultChan() {
		if one, is := event.Object.(*apps.Deployment); is && *one.Spec.Replicas == want && !seen[one.Name] {
			seen[one.Name] = true
			if took = append(took, time.Since(began)); len(took) == of {
				return took
			}
		}
	}
	t.Fatal("the watch ended")
	return nil
}
