package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
)

// An autoscaler on the busy share of a Deployment's workers: 21 busy ones of 10 a pod want three
// pods at a target of 0.7. The ratio is of sums over the pods, by the rule of the documentation's
// example. The rule says in its status that it holds, and what it last answered.
func scalesOnARatio(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "ratio")
	c.Apply(t, ns, deployment("web"))
	c.AwaitPods(t, ns, "app=web", 1)
	c.Apply(t, ns, example(t, "rule-ratio.yaml", ns))
	defer c.shareWork(t, ns, 21)()
	c.wantReplicas(t, ns, "web", 3)
	c.steady(t, ns, "web", 3, 20*time.Second)
	c.noWarningsNow(t, ns, "web-ratio")
	c.wantStatus(t, ns, "busy", `{.status.conditions[?(@.type=="Accepted")].status}`, "True")
	c.wantStatus(t, ns, "busy", "{.status.lastValueOf}", "deployments.apps/web")
}

// shareWork has the pods of web push their share of busy workers, of ten each.
func (c *cluster) shareWork(t *testing.T, namespace string, busy int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			pods := c.running(ctx, namespace, "app=web")
			for _, pod := range pods {
				_ = c.trySendFrom(netip.MustParseAddr(pod.Status.PodIP),
					fmt.Sprintf("busy_workers:%g|g\ntotal_workers:10|g", float64(busy)/float64(len(pods))))
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

// wantStatus waits for a field of a MetricRule.
func (c *cluster) wantStatus(t *testing.T, namespace, name, path, part string) {
	t.Helper()
	within(t, func() error {
		out := c.Kubectl(t, "get", "metricrules", "-n", namespace, name, "-o", "jsonpath="+path)
		if !strings.Contains(out, part) {
			return fmt.Errorf("%s of metricrule/%s is %q, want %q in it", path, name, out, part)
		}
		return nil
	})
}

const rulesOfBad = `
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: good}
spec: {metric: double, let: {x: "queue:last"}, value: "2.0 * x"}
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: typo}
spec: {metric: typo, let: {x: queue}, value: "2.0 * y + x"}
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: of-rules}
spec: {metric: fourfold, let: {x: double}, value: "2.0 * x"}
---
apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: pushed}
spec: {metric: shown, let: {x: other}, value: x}
`

// A rule that is refused says why in its status and in an Event, and all others hold. What one
// object alone shows to be wrong, the API server refuses. The right to a rule's metric is none to
// its operands.
func refusesBadRules(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "rules")
	batch := addressOf(t, c.pod(t, ns, "batch", "default"))
	c.push(t, batch, http.MethodPut, "/v1/namespaces/"+ns+"/external/queue", "21", http.StatusOK)
	c.push(t, batch, http.MethodPut, "/v1/namespaces/"+ns+"/external/shown", "1", http.StatusOK)
	c.Apply(t, ns, rulesOfBad, controlplane.Role("double", controlplane.User("joan"),
		"{apiGroups: [external.metrics.k8s.io], resources: [double], verbs: [list]}"))
	message := `{.status.conditions[?(@.type=="Accepted")].reason}: {.status.conditions[?(@.type=="Accepted")].message}`
	c.wantStatus(t, ns, "good", message, "Accepted: the rule holds")
	c.wantStatus(t, ns, "typo", message, "Invalid: value, line 1, column 7: undeclared reference to 'y'")
	c.wantStatus(t, ns, "of-rules", message, `RuleOfRules: let.x is "double", which metricrule/good in `+ns+" computes")
	c.wantStatus(t, ns, "pushed", message, `Pushed: the metric "shown" is pushed as an external metric in "`+ns+`"`)
	c.wantEvent(t, ns, "typo", "undeclared reference to 'y'")
	if out := c.Kubectl(t, "get", "--raw", external+"/namespaces/"+ns+"/double"); !strings.Contains(out, `"value":"42"`) {
		t.Errorf("double is %s", out)
	}
	joan := c.As(t, "joan")
	within(t, func() error {
		_, err := joan.Get(t.Context(), external+"/namespaces/"+ns+"/double")
		if err == nil || !strings.Contains(err.Error(), "queue:last") {
			return fmt.Errorf("%v, want that queue:last is forbidden", err)
		}
		return nil
	})
	for fault, spec := range map[string]string{
		"must have either":           `{metric: a, let: {x: b}, value: x, rename: {from: a, to: b}}`,
		"the name of an operand":     `{metric: a, let: {"1": b}, value: x}`,
		"selectors must be of":       `{metric: a, let: {x: b}, selectors: {y: a=b}, value: x}`,
		"from must be an RE2":        `{rename: {from: "(", to: b}}`,
		"spec.rename.from: Invalid":  `{rename: {from: "\\Qa", to: b}}`,
		"spec.rename.from: Too long": `{rename: {from: "` + strings.Repeat("a", 129) + `", to: b}}`,
	} {
		manifest := "{apiVersion: sluice.dev/v1alpha1, kind: MetricRule, metadata: {name: refused, namespace: " + ns + "}, spec: " + spec + "}"
		file := filepath.Join(t.TempDir(), "rule.yaml")
		must(t, os.WriteFile(file, []byte(manifest), 0o600))
		if _, err := c.TryKubectl(t, "apply", "-f", file); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v, want %q", spec, err, fault)
		}
	}
}
