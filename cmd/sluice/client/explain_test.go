package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

// apiServer is an API server for tests of explain: it answers paths with documents, refuses those that
// a test forbids, and counts requests.
type apiServer struct {
	answers map[string]string
	forbid  func(path string) bool
	warning string // of each answer of Sluice

	mu    sync.Mutex
	asked []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	s.mu.Unlock()
	status := func(code int, text string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "code": %d, "message": %q}`, code, text)
	}
	if s.warning != "" && strings.HasPrefix(r.URL.Path, inspectAPI) {
		w.Header().Set("Warning", s.warning)
	}
	answer, known := s.answers[r.URL.Path]
	switch {
	case s.forbid != nil && s.forbid(r.URL.Path):
		status(http.StatusForbidden, `User "jane" cannot read `+r.URL.Path)
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"status": {"allowed": true}}`)
	case known:
		fmt.Fprint(w, answer)
	default:
		status(http.StatusNotFound, r.URL.Path+" not found")
	}
}

const (
	shopHPAs = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
	shopPods = "/api/v1/namespaces/shop/pods"
	busyPath = CustomAPI + "/namespaces/shop/pods/*/busy"
)

// newShop has an autoscaler with three pods, of which one has no value.
func newShop() *apiServer {
	autoscaler := `{"metadata": {"name": "web", "namespace": "shop"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"minReplicas": 1, "maxReplicas": 10, "metrics": [{"type": "Pods", "pods": {"metric": {"name": "busy"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]},
		"status": {"currentReplicas": 3, "desiredReplicas": 4}}`
	pod := func(i int) string {
		return fmt.Sprintf(`{"metadata": {"name": "web-%d", "labels": {"app": "web"}}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`, i)
	}
	value := func(i int) string {
		return fmt.Sprintf(`{"describedObject": {"kind": "Pod", "name": "web-%d"}, "metric": {"name": "busy"}, "value": "20"}`, i)
	}
	available := `{"spec": {"service": {"namespace": "sluice", "name": "sluice-api"}}, "status": {"conditions": [{"type": "Available", "status": "True"}]}}`
	return &apiServer{answers: map[string]string{
		shopHPAs:          `{"items": [` + autoscaler + `]}`,
		shopHPAs + "/web": autoscaler,
		"/apis/apps/v1":   `{"resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/scale", "kind": "Scale"}]}`,
		"/apis/apps/v1/namespaces/shop/deployments/web/scale": `{"spec": {"replicas": 3}, "status": {"replicas": 3, "selector": "app=web"}}`,
		shopPods: `{"items": [` + pod(0) + "," + pod(1) + "," + pod(2) + `]}`,
		busyPath: `{"items": [` + value(0) + "," + value(1) + `]}`,
		registrations + "v1beta2.custom.metrics.k8s.io":   available,
		registrations + "v1beta1.external.metrics.k8s.io": available,
		registrations + "v1alpha1.inspect.sluice.dev":     available,
		"/apis/custom.metrics.k8s.io":                     `{}`,
		"/apis/external.metrics.k8s.io":                   `{}`,
		inspectAPI + "/namespaces/shop/limituses":         `{"items": []}`,
		"/api/v1/namespaces/shop/limitranges":             `{"items": []}`,
		inspectAPI + "/namespaces/shop/rejections":        `{"items": [{"sender": "web-2", "metric": "busy", "reason": "limit", "message": "the pod has its 5 metrics", "last": "` + time.Now().Format(time.RFC3339) + `"}]}`,
	}}
}

// TestExplainPrintsTheHalfThatItKnows forbids one step after the other.
func TestExplainPrintsTheHalfThatItKnows(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		forbid func(path string) bool
		says   []string
	}{
		"nothing": {command.ExitFailed, nil, []string{"pushed, but was rejected (limit): the pod has its 5 metrics", "= 4 replicas"}},
		"the scale": {
			command.ExitOK,
			func(path string) bool { return strings.HasSuffix(path, "/scale") },
			[]string{"Unknown", "the target's replicas and pods: you lack the right", "busy: not asked, because the target's pods are unknown"},
		},
		"pods": {
			command.ExitOK,
			func(path string) bool { return path == shopPods },
			[]string{"the target's pods: you lack the right", "the target's pods are unknown, so pods without a value can't be counted"},
		},
		"metrics": {
			command.ExitOK,
			func(path string) bool { return strings.HasPrefix(path, CustomAPI) },
			[]string{"you (jane) may not read the metrics of shop", "kubectl create rolebinding metrics-reader -n shop", "--user=jane",
				"unknown, because you may not read 1 metric", "by its status, the autoscaler wants 4 replicas"},
		},
		"registrations": {
			command.ExitFailed,
			func(path string) bool { return strings.HasPrefix(path, registrations) },
			[]string{"how the metrics APIs are registered: you lack the right", "= 4 replicas"},
		},
		"reviews of rights": {
			command.ExitFailed,
			func(path string) bool { return strings.Contains(path, "subjectaccessreviews") },
			[]string{"whether the HPA controller may read the metrics: you lack the right", "= 4 replicas"},
		},
		"lists": {
			command.ExitFailed,
			func(path string) bool { return strings.HasPrefix(path, inspectAPI) },
			[]string{"what is pushed and what is rejected: you lack the right", "kubectl create rolebinding sluice-inspect-reader -n shop", "has not pushed it", "= 4 replicas"},
		},
		"other autoscalers": {
			command.ExitFailed,
			func(path string) bool { return path == shopHPAs },
			[]string{"other autoscalers of the namespace: you lack the right", "= 4 replicas"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newShop()
			server.forbid = c.forbid
			code, out, errs := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
			if wantCode := c.code; code != wantCode || (errs != "") != (wantCode != command.ExitOK) {
				t.Errorf("exit code %d, want %d: %s", code, wantCode, errs)
			}
			for _, part := range c.says {
				if !strings.Contains(out, part) {
					t.Errorf("%q is not in\n%s", part, out)
				}
			}
			if name == "nothing" && strings.Contains(out, "Unknown") {
				t.Errorf("something is unknown:\n%s", out)
			}
		})
	}
}

// A limit that holds an autoscaler back is raised by a command.
// Replicas that are away are named once, by explanations and by lists.
func TestReplicasThatAreAwayAreNamed(t *testing.T) {
	server := newShop()
	server.answers[inspectAPI+"/namespaces/shop/metrics"] = `{"items": [{"namespace": "shop", "name": "busy", "kind": "gauge"}]}`
	server.answers[inspectAPI+"/namespaces/shop/metrics/busy"] = `{"metrics": [{"namespace": "shop", "name": "busy", "kind": "gauge"}]}`
	server.warning = `299 - "replica sluice-1 has not been heard for 37s: answers have its last state"`
	for _, args := range [][]string{{"explain", "hpa/web"}, {"explain", "busy"}, {"list", "metrics"}} {
		_, out, errs := called(append(args, "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))...)
		if n := strings.Count(out+errs, "replica sluice-1 has not been heard for 37s"); n != 1 {
			t.Errorf("%q: it is named %d times\n%s%s", args, n, out, errs)
		}
	}
}

// A pod without a value whose node's agent is not heard is explained by that, as far as the agents may be listed.
func TestExplainNamesTheAgentOfANode(t *testing.T) {
	server := newShop()
	server.answers[shopPods] = strings.ReplaceAll(server.answers[shopPods], `"status": {"phase"`, `"spec": {"nodeName": "node-2"}, "status": {"phase"`)
	server.answers[inspectAPI+"/namespaces/shop/rejections"] = `{"items": []}`
	const text = "the agent of its node is cut off"
	for answer, want := range map[string][]string{
		`{"items": [{"node": "node-2", "state": "cut off", "since": "2026-01-01T00:00:00Z"}]}`: {"(agent-cut-off)", "the agent of node node-2 was cut off", text},
		`{"items": [{"node": "node-1", "state": "connected"}]}`:                                {"(no-agent)", "node node-2 has no agent", "its node has no agent"},
		`{"items": [{"node": "node-2", "state": "connected"}]}`:                                {"has not pushed it, or its value has expired"},
		`{"items": []}`: {"has not pushed it, or its value has expired"},
		"":              {"has not pushed it, or its value has expired"},
	} {
		server.answers[inspectAPI+"/agents"] = answer
		server.forbid = func(path string) bool { return answer == "" && path == inspectAPI+"/agents" }
		_, out, _ := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
		for _, part := range want {
			if !strings.Contains(out, part) || strings.Contains(out, "Unknown") {
				t.Errorf("%s: %q is not in\n%s", answer, part, out)
			}
		}
	}
}

func TestExplainRaisesTheLimit(t *testing.T) {
	server := newShop()
	server.answers[inspectAPI+"/namespaces/shop/limituses"] = `{"items": [{"of": {"resource": "pods", "namespace": "shop", "name": "web-2"},
		"metrics": 5, "maxMetrics": 5, "wantedMetrics": 7, "series": 5, "maxSeries": 100, "source": "pushed"}]}`
	server.answers["/api/v1/namespaces/shop/limitranges"] = `{"items": [{"metadata": {"name": "memory"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}},
		{"metadata": {"name": "pushed"}, "spec": {"limits": [{"type": "sluice.dev/Pod", "max": {"sluice.dev/metrics": "5"}}]}}]}`
	const want = `    kubectl patch limitrange -n shop pushed --type=json -p '[{"op":"replace","path":"/spec/limits/0/max/sluice.dev~1metrics","value":"7"}]'` + "\n"
	code, out, errs := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	if code != command.ExitFailed || !strings.Contains(out, want) || !strings.Contains(errs, "see the faults above") || strings.Contains(out, "Unknown") {
		t.Errorf("exit code %d, %s\n%s\nwant %s", code, errs, out, want)
	}
	server.forbid = func(path string) bool { return strings.HasSuffix(path, "/limitranges") }
	code, out, _ = called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	for _, part := range []string{`kubectl edit limitrange -n shop pushed  # type sluice.dev/Pod, max: sluice.dev/metrics: "7"`, "the LimitRanges: you lack the right"} {
		if code != command.ExitFailed || !strings.Contains(out, part) {
			t.Errorf("exit code %d, %q is not in\n%s", code, part, out)
		}
	}
}

// Nothing is explained of an autoscaler that may not be read, or is not there.
func TestExplainNeedsTheAutoscaler(t *testing.T) {
	server := newShop()
	server.forbid = func(path string) bool { return path == shopHPAs+"/web" }
	file := answering(t, server.ServeHTTP)
	if code, out, errs := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", file); code != command.ExitFailed || out != "" || !strings.Contains(errs, `User "jane" cannot read`) {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if code, _, errs := called("explain", "pod/web", "--kubeconfig", file); code != command.ExitUsage || !strings.Contains(errs, "neither hpa/NAME nor scaledobject/NAME") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// A ScaledJob is not explained: the answer names the ways to see what is wrong with it.
func TestExplainOfAScaledJob(t *testing.T) {
	file := answering(t, newShop().ServeHTTP)
	for _, kind := range []string{"scaledjob", "sj", "ScaledJobs.keda.sh"} {
		code, out, errs := called("explain", kind+"/mail", "-n", "shop", "--kubeconfig", file)
		for _, part := range []string{"explain does not know ScaledJobs", "kubectl describe scaledjob -n shop mail", "sluice explain -n shop METRIC"} {
			if code != command.ExitUsage || out != "" || !strings.Contains(errs, part) {
				t.Errorf("%s: exit code %d, %q, %q, want %q", kind, code, out, errs, part)
			}
		}
	}
}

// Somebody on call may not know the namespace, or how the question is written.
func TestExplainHintsAtTheAutoscaler(t *testing.T) {
	server := newShop()
	const everywhere = "/apis/autoscaling/v2/horizontalpodautoscalers"
	server.answers[everywhere] = `{"items": [{"metadata": {"name": "web", "namespace": "shop"}}, {"metadata": {"name": "web", "namespace": "billing"}}, {"metadata": {"name": "api", "namespace": "mail"}}]}`
	server.answers["/apis/autoscaling/v2"] = `{}`
	for _, empty := range []string{"empty", "mail"} {
		server.answers["/apis/autoscaling/v2/namespaces/"+empty+"/horizontalpodautoscalers"] = `{"items": [{"metadata": {"name": "api", "namespace": "mail"}}]}`
		server.answers[inspectAPI+"/namespaces/"+empty+"/metrics"] = `{"items": []}`
		server.answers[inspectAPI+"/namespaces/"+empty+"/rejections"] = `{"items": []}`
	}
	server.answers[inspectAPI+"/namespaces/shop/metrics"] = `{"items": []}`
	server.answers[inspectAPI+"/metrics"] = `{"items": []}`
	file := answering(t, server.ServeHTTP)
	for name, c := range map[string]struct {
		args   []string
		forbid string
		code   int
		says   string
	}{
		"another namespace": {[]string{"hpa/web", "-n", "empty"}, "", command.ExitFailed,
			"there is no HorizontalPodAutoscaler web in empty; there is one in billing and shop: sluice explain -n billing hpa/web\n"},
		"a name nearby": {[]string{"hpa/apl", "-n", "mail"}, "", command.ExitFailed,
			"there is no HorizontalPodAutoscaler apl in mail; did you mean api? sluice explain -n mail hpa/api\n"},
		"nowhere": {[]string{"hpa/nothing-like-it", "-n", "mail"}, "", command.ExitFailed,
			"there is no HorizontalPodAutoscaler nothing-like-it in any namespace: kubectl get hpa -A\n"},
		"all namespaces may not be listed": {[]string{"hpa/web", "-n", "empty"}, everywhere, command.ExitFailed,
			"there is no HorizontalPodAutoscaler web in empty; you may not list those of all namespaces. Name another: sluice explain -n NAMESPACE hpa/web\n"},
		"two words":                {[]string{"hpa", "web", "-n", "shop"}, "", command.ExitUsage, "2 arguments; must be one, as in: sluice explain -n shop hpa/web"},
		"two words, no namespace":  {[]string{"ScaledObject", "web"}, "", command.ExitUsage, "2 arguments; must be one, as in: sluice explain scaledobject/web"},
		"a name alone":             {[]string{"web", "-n", "shop"}, "", command.ExitFailed, "web is a HorizontalPodAutoscaler in shop: sluice explain -n shop hpa/web\n"},
		"a name alone, elsewhere":  {[]string{"web", "-n", "empty"}, "", command.ExitFailed, "web is a HorizontalPodAutoscaler in billing and shop: sluice explain -n billing hpa/web\n"},
		"a name alone, of nothing": {[]string{"orders", "-n", "shop"}, "", command.ExitFailed, "orders was never pushed in shop, or has expired.\n"},
	} {
		server.forbid = func(path string) bool { return path == c.forbid }
		code, out, errs := called(append([]string{"explain", "--kubeconfig", file}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q in\n%s%s", name, code, c.code, c.says, out, errs)
		}
		if name == "a name alone, of nothing" && strings.Contains(out, "HorizontalPodAutoscaler") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// In a namespace of 1,000 pods and 200 autoscalers the number of requests is bounded.
func TestExplainInALargeNamespace(t *testing.T) {
	const pods, autoscalers = 1000, 200
	server := newShop()
	var podItems, values, hpas, deployments []string
	for i := range pods {
		podItems = append(podItems, fmt.Sprintf(`{"metadata": {"name": "web-%d", "labels": {"app": "web"}}, "status": {"phase": "Running"}}`, i))
		values = append(values, fmt.Sprintf(`{"describedObject": {"kind": "Pod", "name": "web-%d"}, "metric": {"name": "busy"}, "value": "20"}`, i))
	}
	for i := range autoscalers {
		version, kind := "apps/v1", "Deployment"
		if i%2 == 0 {
			version, kind = "example.org/v1", "Rollout" // its selector is read by its scale
		}
		hpas = append(hpas, fmt.Sprintf(`{"metadata": {"name": "hpa-%d"}, "spec": {"scaleTargetRef": {"apiVersion": %q, "kind": %q, "name": "d-%d"}}}`, i, version, kind, i))
		deployments = append(deployments, fmt.Sprintf(`{"metadata": {"name": "d-%d"}, "spec": {"selector": {"matchLabels": {"app": "d-%d"}}}}`, i, i))
	}
	deployments[199] = `{"metadata": {"name": "d-199"}, "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}}`
	list := func(items []string) string { return `{"items": [` + strings.Join(items, ",") + `]}` }
	server.answers[shopPods], server.answers[busyPath], server.answers[shopHPAs] = list(podItems), list(values), list(hpas)
	server.answers["/apis/apps/v1/namespaces/shop/deployments"] = list(deployments)
	server.answers[inspectAPI+"/namespaces/shop/rejections"] = `{"items": []}`
	server.answers["/apis/example.org/v1"] = `{"resources": [{"name": "rollouts", "kind": "Rollout"}]}`
	code, out, _ := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP), "-o", "json")
	var r explain.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != command.ExitFailed {
		t.Fatal(code, err)
	}
	if len(r.Findings) != 1 || r.Findings[0].Cause != explain.Overlap || !strings.Contains(r.Findings[0].Text, "hpa-199") {
		t.Errorf("findings %+v, want that hpa-199 selects the same pods", r.Findings)
	}
	if len(server.asked) > 40 {
		counts := map[string]int{}
		for _, path := range server.asked {
			counts[path]++
		}
		t.Errorf("%d requests: %v", len(server.asked), slices.Sorted(maps.Keys(counts)))
	}
}

// The selector of a metric is sent as the controller sends it, and an empty one is none.
func TestExplainAsksAsTheController(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`:                                 "",
		`{"matchLabels": {"queue": "mail"}}`: "queue=mail",
		`{"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x", "y"]}, {"key": "c", "operator": "Exists"}]}`: "a notin (x,y),b=1,c",
	} {
		server := newShop()
		server.answers[shopHPAs+"/web"] = `{"metadata": {"name": "web"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3,
			"metrics": [{"type": "External", "external": {"metric": {"name": "queue_depth", "selector": ` + spec + `}, "target": {"type": "Value", "value": "10"}}}]}}`
		asked := "not at all"
		file := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, ExternalAPI) {
				asked = r.URL.Query().Get("labelSelector")
			}
			server.ServeHTTP(w, r)
		})
		called("explain", "hpa/web", "-n", "shop", "--kubeconfig", file)
		if asked != want {
			t.Errorf("%s: asked with %q, want %q", spec, asked, want)
		}
	}
}

// prometheus-adapter registers the older version of the custom metrics API alone.
func TestExplainFindsAnotherOwner(t *testing.T) {
	server := newShop()
	delete(server.answers, registrations+"v1beta2.custom.metrics.k8s.io")
	server.answers[registrations+"v1beta1.custom.metrics.k8s.io"] = `{"spec": {"service": {"namespace": "monitoring", "name": "prometheus-adapter"}}, "status": {"conditions": [{"type": "Available", "status": "True"}]}}`
	code, out, _ := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	for _, part := range []string{"belongs to prometheus-adapter (monitoring/prometheus-adapter:443)", "kubectl delete apiservice v1beta1.custom.metrics.k8s.io"} {
		if code != command.ExitFailed || !strings.Contains(out, part) {
			t.Errorf("exit code %d, %q is not in\n%s", code, part, out)
		}
	}
}

func TestExplainAMetricWithoutRights(t *testing.T) {
	server := newShop()
	server.forbid = func(path string) bool { return strings.HasPrefix(path, inspectAPI) }
	if code, _, errs := called("explain", "busy", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP)); code != command.ExitFailed ||
		!strings.Contains(errs, "kubectl create rolebinding sluice-inspect-reader -n shop") {
		t.Errorf("without rights: exit code %d, %q", code, errs)
	}
}

// A target that does not exist is a fault before the controller's first round says so.
func TestExplainNamesAnAbsentTarget(t *testing.T) {
	server := newShop()
	delete(server.answers, "/apis/apps/v1/namespaces/shop/deployments/web/scale")
	code, out, errs := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	if code != command.ExitFailed || !strings.Contains(out, "Kubernetes cannot scale the target: /apis/apps/v1/namespaces/shop/deployments/web/scale not found") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// In a cluster without Sluice's APIServices the registration is missing, and the API server's port is right.
func TestExplainWithoutRegistration(t *testing.T) {
	server := newShop()
	for path := range server.answers {
		if strings.Contains(path, "metrics.k8s.io") || strings.Contains(path, "inspect.sluice.dev") {
			delete(server.answers, path)
		}
	}
	kubeconfig := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if group := groupOf(r.URL.Path); strings.Contains(group, "metrics.k8s.io") || strings.Contains(group, "inspect.sluice.dev") {
			http.NotFound(w, r) // as the API server answers for a group that there is not
			return
		}
		server.ServeHTTP(w, r)
	})
	for _, command := range [][]string{{"explain", "hpa/web"}, {"explain", "busy"}, {"list", "metrics"}} {
		_, out, errs := called(append(command, "-n", "shop", "--kubeconfig", kubeconfig)...)
		if said := out + errs; strings.Contains(said, "is not the port") || !strings.Contains(said, "APIService") {
			t.Errorf("%q: %s", command, said)
		}
	}
	if _, out, _ := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", kubeconfig); !strings.Contains(out, "(not-registered)") || !strings.Contains(out, "there is no APIService v1beta2.custom.metrics.k8s.io") {
		t.Error(out)
	}
}
