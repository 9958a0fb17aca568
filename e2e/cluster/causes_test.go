package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	core "k8s.io/api/core/v1"
)

// causes are those of one namespace, each with what provokes it and what is found: a "?" marks a note,
// with which the autoscaler works.
var causes = []struct {
	name    string
	want    []string
	provoke func(*testing.T, *explained)
	mend    func(*testing.T, *explained) // may be nil
}{
	{"healthy", nil, func(t *testing.T, e *explained) {
		push := e.workload(t, "web", 2)
		push(0, "busy:10|g")
		push(1, "busy:10|g")
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10")))
		e.wantStatus(t, "ScalingActive", "True", "")
	}, func(t *testing.T, e *explained) {
		elsewhere := *e
		elsewhere.ns = "default"
		if code, _, says := elsewhere.explain(t, "hpa/web"); code != 1 || !strings.Contains(says, "there is no HorizontalPodAutoscaler web in default; there is one in ") {
			t.Errorf("another namespace: exit code %d, %s", code, says)
		}
		if code, out, says := e.explain(t, "web"); code != 1 || !strings.Contains(says, "web is a HorizontalPodAutoscaler in "+e.ns+": sluice explain -n "+e.ns+" hpa/web") {
			t.Errorf("not a metric: exit code %d, %s%s", code, out, says)
		}
		if code, out, _ := e.explain(t, "busy"); code != 0 || !strings.Contains(out, "pushed by pod "+e.ns+"/web-") || !strings.Contains(out, "read as busy (last)") {
			t.Errorf("a metric: exit code %d, %s", code, out)
		}
	}},
	{"misspelt", []string{"never-pushed"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)(0, "queue_depth:3|g|#sluice_object:external")
		e.awaitRead(t, external+"/namespaces/"+e.ns+"/queue_depth")
		e.Apply(t, e.ns, hpa("web", externalMetric("queue_dept:last", "", "10")))
		e.wantStatus(t, "ScalingActive", "False", "FailedGetExternalMetric")
	}, nil},
	{"never-pushed", []string{"never-pushed"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)
		e.Apply(t, e.ns, hpa("web", podsMetric("orders:rate", "10")))
		e.wantStatus(t, "ScalingActive", "False", "FailedGetPodsMetric")
	}, nil},
	{"expired", []string{"never-pushed"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)
		address := addressOf(t, e.AwaitPods(t, e.ns, "app=web", 1)[0])
		e.push(t, address, http.MethodPut, "/v1/namespaces/"+e.ns+"/external/backlog?ttl=1s", "7", http.StatusOK)
		e.Apply(t, e.ns, hpa("web", externalMetric("backlog", "", "10")))
		e.wantStatus(t, "ScalingActive", "False", "FailedGetExternalMetric")
	}, nil},
	{"other-namespace", []string{"other-namespace"}, func(t *testing.T, e *explained) {
		other := e.Namespace(t, "invoicing")
		e.hide = append(e.hide, other)
		pod := e.pod(t, other, "batch", "default")
		e.repeat(t, addressOf(t, pod), func() string { return "invoices:4|g|#sluice_object:external" })
		e.workload(t, "web", 1)
		e.Apply(t, e.ns, hpa("web", externalMetric("invoices", "", "10")))
		e.wantStatus(t, "ScalingActive", "False", "FailedGetExternalMetric")
	}, func(t *testing.T, e *explained) {
		e.applyRemedies(t)
		within(t, func() error {
			allowed := e.reviewed(t, "system:serviceaccount:"+e.hide[0]+":default", "create")
			if !allowed {
				return errors.New("the sender may not push for the autoscaler's namespace")
			}
			return nil
		})
		if code, out, _ := e.explain(t, "invoices"); code != 1 || !strings.Contains(out, "It also exists in "+e.hide[0]+", pushed by pod "+e.hide[0]+"/batch (service account "+e.hide[0]+":default)") {
			t.Errorf("exit code %d: %s", code, out)
		}
	}},
	{"other-object", []string{"other-kind"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)(0, "requests:5|c")
		e.awaitRead(t, custom+"/namespaces/"+e.ns+"/pods/*/requests:total")
		e.Apply(t, e.ns, hpa("web", externalMetric("requests:rate:10s", "", "10")))
		e.wantStatus(t, "ScalingActive", "False", "FailedGetExternalMetric")
	}, nil},
	{"other-stat", []string{"other-kind"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)(0, "requests:5|c")
		e.awaitRead(t, custom+"/namespaces/"+e.ns+"/pods/*/requests:total")
		e.Apply(t, e.ns, hpa("web", podsMetric("requests:p95", "10")))
		e.wantStatus(t, "ScalingActive", "False", "FailedGetPodsMetric")
	}, nil},
	{"selector", []string{"selector-empty"}, func(t *testing.T, e *explained) {
		push := e.workload(t, "web", 1)
		push(0, "hits:5|g|#sluice_object:external,path:/api\nhits:5|g|#sluice_object:external,path:/pay,zone:b")
		e.awaitRead(t, external+"/namespaces/"+e.ns+"/hits")
		e.Apply(t, e.ns, hpa("web", externalMetric("hits", "path: web", "10")))
		e.wantStatus(t, "ScalingActive", "False", "FailedGetExternalMetric")
	}, nil},
	{"pods-missing", []string{"pods-missing", "pods-missing"}, func(t *testing.T, e *explained) {
		e.Apply(t, e.ns, `
apiVersion: v1
kind: LimitRange
metadata: {name: pushed-metrics}
spec: {limits: [{type: sluice.dev/Pod, max: {sluice.dev/metrics: "1"}}]}
`)
		push := e.workload(t, "web", 3)
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10"), podsMetric("waiting", "10")))
		e.awaitAutoscaler(t, "web")
		push(0, "busy:10|g")
		push(1, "busy:10|g")
		push(2, "waiting:10|g")
		e.wantValues(t, "/namespaces/"+e.ns+"/pods/*/busy", map[string]float64{"web-0": 10, "web-1": 10})
		e.wantValues(t, "/namespaces/"+e.ns+"/pods/*/waiting", map[string]float64{"web-2": 10})
		push(0, "waiting:10|g")
		push(1, "waiting:10|g")
		push(2, "busy:10|g")
		e.wantStatus(t, "ScalingActive", "True", "")
	}, func(t *testing.T, e *explained) {
		within(t, func() error {
			if code, out := e.list(t, "hpas"); code != 1 || !strings.Contains(out, "is held back") {
				return fmt.Errorf("list hpas: exit code %d, %s", code, out)
			}
			return nil
		})
		const says = "metric \"waiting\" is rejected: the limit of pod web-0 is 1 metric, and 1 is in use: busy (named by an autoscaler). "
		if _, out := e.list(t, "refused", "-o", "wide"); !strings.Contains(out, says) {
			t.Errorf("list refused doesn't say %q:\n%s", says, out)
		}
		if events := e.Kubectl(t, "get", "events", "-n", e.ns, "--field-selector", "reason=MetricRefused"); !strings.Contains(events, says) {
			t.Errorf("no Event says %q:\n%s", says, events)
		}
		e.applyRemedies(t)
		e.wantCause(t, "pods-missing-mended", nil)
	}},
	{"series-rejected", []string{"series-rejected"}, func(t *testing.T, e *explained) {
		e.Apply(t, e.ns, `
apiVersion: v1
kind: LimitRange
metadata: {name: pushed-metrics}
spec: {limits: [{type: sluice.dev/Pod, max: {sluice.dev/series: "1"}}]}
`)
		push := e.workload(t, "web", 2)
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "20")))
		e.awaitAutoscaler(t, "web")
		push(0, "busy:10|g|#queue:a")
		push(1, "busy:20|g")
		e.wantValues(t, "/namespaces/"+e.ns+"/pods/*/busy", map[string]float64{"web-0": 10, "web-1": 20})
		push(0, "busy:10|g|#queue:b")
		e.wantStatus(t, "ScalingActive", "True", "")
	}, func(t *testing.T, e *explained) {
		within(t, func() error {
			if code, out := e.list(t, "hpas"); code != 1 || !strings.Contains(out, "metric busy is held back: the value of 1 of 2 pods is incomplete (web-0 ") {
				return fmt.Errorf("list hpas: exit code %d, %s", code, out)
			}
			return nil
		})
		e.wantAutoscalerEvent(t, e.ns, core.EventTypeWarning, "MetricHeldBack", `Pods metric "busy" holds the autoscaler back`, "web-0", "sluice explain hpa/web -n "+e.ns)
		e.applyRemedies(t)
		e.wantCause(t, "series-rejected-mended", nil)
		e.wantAutoscalerEvent(t, e.ns, core.EventTypeNormal, "MetricReleased", `Pods metric "busy" no longer holds the autoscaler back`)
	}},
	{"thousandths", []string{"held-by-spec?", "target-type?", "pods-missing?"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)(0, "busy:10|g")
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10m")))
		e.AwaitPods(t, e.ns, "app=web", 5)
	}, nil},
	{"value", []string{"held-by-spec?", "target-type?"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 5)(0, "queue_depth:900|g|#sluice_object:external")
		e.Apply(t, e.ns, hpa("web", `{type: External, external: {metric: {name: queue_depth}, target: {type: Value, value: "100"}}}`))
		e.wantStatus(t, "ScalingActive", "True", "")
	}, nil},
	{"same-target", []string{"overlap"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)(0, "busy:10|g")
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10")), hpa("web-too", podsMetric("busy", "10")))
		e.wantStatus(t, "ScalingActive", "False", "AmbiguousSelector")
	}, nil},
	{"shared-pods", []string{"overlap"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)(0, "busy:10|g")
		e.Apply(t, e.ns, sharingDeployment, hpa("web", podsMetric("busy", "10")), sharingAutoscaler)
		e.wantStatus(t, "ScalingActive", "False", "AmbiguousSelector")
	}, nil},
	{"one-broken", []string{"never-pushed", "one-broken?"}, func(t *testing.T, e *explained) {
		push := e.workload(t, "web", 3)
		for i := range 3 {
			push(i, "busy:5|g")
		}
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10"), externalMetric("orders", "", "10")))
		e.wantStatus(t, "ScalingActive", "False", "FailedGetExternalMetric")
	}, nil},
	{"no-target", []string{"not-able-to-scale"}, func(t *testing.T, e *explained) {
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10")))
		e.wantStatus(t, "AbleToScale", "False", "FailedGetScale")
	}, nil},
	{"own-rights", []string{"right-missing?"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)(0, "busy:10|g")
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10")), viewer(e.ns))
		e.kubeconfig = e.ServiceAccountKubeconfig(t, e.ns, "viewer")
		e.wantStatus(t, "ScalingActive", "True", "")
	}, nil},
	{"own-rights-broken", []string{"never-pushed", "right-missing?"}, func(t *testing.T, e *explained) {
		e.workload(t, "web", 1)
		e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10")), viewer(e.ns))
		e.kubeconfig = e.ServiceAccountKubeconfig(t, e.ns, "viewer")
		e.wantStatus(t, "ScalingActive", "False", "FailedGetPodsMetric")
	}, nil},
}

// awaitRead waits until a path of the API server is answered.
func (e *explained) awaitRead(t *testing.T, path string) {
	t.Helper()
	within(t, func() error {
		_, err := e.Get(t.Context(), path)
		return err
	})
}

const sharingDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: all}
spec:
  replicas: 1
  selector: {matchLabels: {tier: back}}
  template:
    metadata: {labels: {tier: back, app: all}}
    spec: {containers: [{name: main, image: shop/main:1}]}
`

const sharingAutoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: all}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: all}
  maxReplicas: 5
  metrics: [{type: External, external: {metric: {name: orders}, target: {type: Value, value: "1"}}}]
`

// viewer may see the namespace and no metric.
func viewer(namespace string) string {
	return controlplane.ServiceAccount("viewer") + "---" +
		controlplane.RoleBinding("viewer", "view", controlplane.Account(namespace, "viewer"))
}

// reviewed reports whether a user has a right to the samples of the namespace, as Sluice asks.
func (e *explained) reviewed(t *testing.T, user, verb string) bool {
	t.Helper()
	review := fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": %q,
		"resourceAttributes": {"group": "sluice.dev", "resource": "samples", "verb": %q, "namespace": %q}}}`, user, verb, e.ns)
	path := filepath.Join(t.TempDir(), "review.json")
	must(t, os.WriteFile(path, []byte(review), 0o600))
	return e.Kubectl(t, "create", "--validate=false", "-o", "jsonpath={.status.allowed}", "-f", path) == "true"
}
