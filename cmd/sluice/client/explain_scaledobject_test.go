package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

const (
	shopWorker = kedaAPI + "/namespaces/shop/scaledobjects/worker"
	shopEvents = "/api/v1/namespaces/shop/events"
)

// newKEDA has a ScaledObject with a trigger of Sluice, from which KEDA made an autoscaler.
func newKEDA() *apiServer {
	s := newShop()
	s.answers[shopWorker] = `{"metadata": {"name": "worker"}, "spec": {"scaleTargetRef": {"name": "web"}, "maxReplicaCount": 3, "triggers": [{"type": "cron"}, {"type": "external-push",
		"metadata": {"scalerAddress": "dns:///sluice-keda.sluice.svc:9095", "metric": "jobs_waiting:last", "selector": "queue=mail", "target": "10", "absent": "0"},
		"authenticationRef": {"kind": "ClusterTriggerAuthentication", "name": "sluice"}}]},
		"status": {"hpaName": "keda-hpa-worker", "conditions": [{"type": "Ready", "status": "True"}]}}`
	s.answers[shopHPAs+"/keda-hpa-worker"] = `{"metadata": {"name": "keda-hpa-worker", "namespace": "shop", "ownerReferences": [{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "worker", "controller": true}]},
		"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3, "metrics": [{"type": "External", "external": {
		"metric": {"name": "s1-jobs-waiting-last", "selector": {"matchLabels": {"scaledobject.keda.sh/name": "worker"}}}, "target": {"type": "AverageValue", "averageValue": "10"}}}]}}`
	s.answers[shopHPAs] = `{"items": []}`
	s.answers[registrations+"v1beta1.external.metrics.k8s.io"] = `{"spec": {"service": {"namespace": "keda", "name": "keda-operator-metrics-apiserver"}}, "status": {"conditions": [{"type": "Available", "status": "True"}]}}`
	s.answers[ExternalAPI+"/namespaces/shop/s1-jobs-waiting-last"] = `{"items": [{"metricName": "s1-jobs-waiting-last", "value": "25"}]}`
	s.answers["/api/v1/namespaces/sluice/services/sluice-keda"] = `{"metadata": {"labels": {"app.kubernetes.io/component": "keda"}}, "spec": {"ports": [{"port": 9095}]}}`
	s.answers[kedaAPI+"/clustertriggerauthentications/sluice"] = `{}`
	s.answers[shopEvents] = `{"items": []}`
	s.answers[inspectAPI+"/namespaces/shop/metrics"] = `{"items": [{"namespace": "shop", "name": "jobs_waiting", "kind": "gauge", "series": 2}]}`
	s.answers[inspectAPI+"/metrics/jobs_waiting"] = `{"metrics": [{"namespace": "shop", "name": "jobs_waiting", "kind": "gauge", "series": 2}]}`
	s.answers[inspectAPI+"/metrics"] = `{"items": []}`
	return s
}

// TestExplainScaledObject breaks one fact after the other.
func TestExplainScaledObject(t *testing.T) {
	unmade := func(s *apiServer) {
		s.answers[shopWorker] = strings.Replace(s.answers[shopWorker], `"hpaName": "keda-hpa-worker", "conditions": [{"type": "Ready", "status": "True"}]`,
			`"conditions": [{"type": "Ready", "status": "False", "message": "no metric specs returned from scalers for ScaledObject shop/worker"}]`, 1)
	}
	for name, c := range map[string]struct {
		change func(*apiServer)
		says   []string // the first: none if nothing is wrong
	}{
		"nothing": {func(*apiServer) {}, []string{"Nothing is wrong.", "Trigger 0, cron: not from Sluice",
			"Trigger 1, external-push: jobs_waiting:last external with queue=mail, target 10, active above 0, 0 while absent", "Sluice has  a gauge as an external metric, 2 series",
			"KEDA gets   25: active", "hpa/keda-hpa-worker, made by KEDA"}},
		"metadata": {func(s *apiServer) {
			unmade(s)
			s.answers[shopWorker] = strings.Replace(s.answers[shopWorker], `"target": "10"`, `"target": "ten"`, 1)
		}, []string{"(trigger-metadata)", `target is "ten"; must be a number`}},
		"another product": {func(s *apiServer) {
			s.answers[shopWorker] = strings.Replace(s.answers[shopWorker], `{"type": "cron"}`, `{"type": "external-push",
				"metadata": {"scalerAddress": "http-scaler.keda:9090", "httpScaledObject": "worker"}}`, 1)
			s.answers["/api/v1/namespaces/keda/services/http-scaler"] = `{"metadata": {"labels": {"app.kubernetes.io/component": "scaler"}}, "spec": {"ports": [{"port": 9090}]}}`
		}, []string{"Nothing is wrong.", "Trigger 0, external-push: not from Sluice", "Trigger 1, external-push: jobs_waiting:last external"}},
		"no metric": {func(s *apiServer) {
			s.answers[shopWorker] = strings.Replace(s.answers[shopWorker], `"metric": "jobs_waiting:last", `, "", 1)
		}, []string{"(trigger-metadata)", "metric is missing"}},
		"Service": {func(s *apiServer) { delete(s.answers, "/api/v1/namespaces/sluice/services/sluice-keda") }, []string{"(trigger-address)", "there is no Service sluice-keda in namespace sluice"}},
		"port": {func(s *apiServer) {
			s.answers["/api/v1/namespaces/sluice/services/sluice-keda"] = `{"spec": {"ports": [{"port": 9091}]}}`
		}, []string{"(trigger-address)", "has the port 9091"}},
		"authentication": {func(s *apiServer) { delete(s.answers, kedaAPI+"/clustertriggerauthentications/sluice") }, []string{"(trigger-authentication)", "ClusterTriggerAuthentication/sluice, which does not exist"}},
		"Event": {func(s *apiServer) {
			unmade(s)
			s.answers[shopEvents] = fmt.Sprintf(`{"items": [{"type": "Warning", "reason": "KEDAScalerFailed", "message": "remote error: tls: bad certificate", "eventTime": %q, "series": {"count": 3, "lastObservedTime": %[1]q}}]}`,
				time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		}, []string{"(trigger-certificate)", "Sluice refuses KEDA's certificate", "3 ×: KEDAScalerFailed: remote error: tls: bad certificate"}},
		"log": {unmade, []string{"(keda-state)", "only its log says why", "kubectl logs -n keda deployment/keda-operator"}},
		"owner": {func(s *apiServer) {
			s.answers[registrations+"v1beta1.external.metrics.k8s.io"] = s.answers[registrations+"v1beta2.custom.metrics.k8s.io"]
		}, []string{"(not-registered)", "externalMetrics.register=false"}},
		"absent": {func(s *apiServer) {
			s.answers[shopWorker] = strings.Replace(s.answers[shopWorker], `"absent": "0"`, `"absent": "error"`, 1)
			delete(s.answers, ExternalAPI+"/namespaces/shop/s1-jobs-waiting-last")
			s.answers[inspectAPI+"/namespaces/shop/metrics"] = `{"items": [{"namespace": "shop", "name": "job_waiting", "kind": "gauge"}]}`
			delete(s.answers, inspectAPI+"/metrics/jobs_waiting")
		}, []string{"(never-pushed)", "did you mean job_waiting?"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := newKEDA()
			c.change(server)
			code, out, errs := called("explain", "scaledobject/worker", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
			if wrong := code == command.ExitFailed && errs != ""; wrong != (c.says[0] != "Nothing is wrong.") {
				t.Errorf("exit code %d: %s", code, errs)
			}
			for _, part := range c.says {
				if !strings.Contains(out, part) {
					t.Errorf("%q is not in\n%s", part, out)
				}
			}
			if strings.Contains(out, "Unknown") {
				t.Errorf("something is unknown:\n%s", out)
			}
		})
	}
}

// TestExplainScaledObjectPrintsTheHalfThatItKnows forbids everything but the ScaledObject itself.
func TestExplainScaledObjectPrintsTheHalfThatItKnows(t *testing.T) {
	server := newKEDA()
	server.forbid = func(path string) bool { return path != shopWorker }
	code, out, errs := called("explain", "scaledobject/worker", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	if code != command.ExitOK {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, part := range []string{"KEDA gets   unknown", "Unknown", "hpa/keda-hpa-worker: you lack the right", "where dns:///sluice-keda.sluice.svc:9095 leads: you lack the right",
		"ClusterTriggerAuthentication/sluice: you lack the right", "Events on scaledobject/worker: you lack the right", "which metrics there are: you lack the right"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
	server.forbid = func(path string) bool { return path == shopWorker }
	if code, out, errs := called("explain", "so/worker", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP)); code != command.ExitFailed || out != "" || !strings.Contains(errs, `User "jane" cannot read`) {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
}

// TestExplainOfKEDAsAutoscaler: KEDA's adapter answers for what KEDA makes of a ScaledObject: that the
// group is KEDA's is no fault.
func TestExplainOfKEDAsAutoscaler(t *testing.T) {
	server := newKEDA()
	delete(server.answers, ExternalAPI+"/namespaces/shop/s1-jobs-waiting-last")
	code, out, _ := called("explain", "hpa/keda-hpa-worker", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	for _, part := range []string{"hpa/keda-hpa-worker (of scaledobject/worker)", "KEDA's adapter answers this metric, as it should", "asks Sluice for jobs_waiting:last",
		"sluice explain -n shop jobs_waiting", "kubectl describe scaledobject -n shop worker"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
	if code != command.ExitFailed || strings.Contains(out, "not-registered") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// TestPaused: any value but false pauses, as in KEDA.
func TestPaused(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "yes": true} {
		if got := paused(map[string]string{"autoscaling.keda.sh/paused": value}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
	if paused(nil) || !paused(map[string]string{"autoscaling.keda.sh/paused-replicas": "0"}) {
		t.Error("without the annotation, or with paused-replicas")
	}
}

// An autoscaler of an Object metric says from how many pods its value is rolled up, if the user may
// read Sluice's documents.
func TestExplainCountsThePodsOfARollUp(t *testing.T) {
	const hpa = `{"metadata": {"name": "web", "namespace": "shop"}, "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"minReplicas": 1, "maxReplicas": 10, "metrics": [{"type": "Object", "object": {"describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"metric": {"name": "busy"}, "target": {"type": "Value", "value": "10"}}}]}, "status": {"currentReplicas": 3, "desiredReplicas": 4}}`
	for _, allowed := range []bool{true, false} {
		server := newShop()
		server.answers[shopHPAs], server.answers[shopHPAs+"/web"] = `{"items": [`+hpa+`]}`, hpa
		server.answers[CustomAPI+"/namespaces/shop/deployments.apps/web/busy"] = `{"items": [{"describedObject": {"kind": "Deployment", "name": "web"}, "metric": {"name": "busy"}, "value": "20"}]}`
		server.answers[inspectAPI+"/namespaces/shop/autoscalers/web"] = `{"namespace": "shop", "name": "web", "metrics": [{"source": "Object", "name": "busy", "values": 2, "pods": 3}]}`
		server.forbid = func(path string) bool { return !allowed && strings.HasPrefix(path, inspectAPI) }
		_, out, errs := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
		if has := strings.Contains(out, "rolled up from its pods, 2 of 3 with a value"); has != allowed {
			t.Errorf("allowed %v:\n%s%s", allowed, out, errs)
		}
	}
}

const listedRules = `{"items": [
	{"name": "broken", "namespace": "shop", "metric": "busy", "from": ["x"], "expression": "x", "state": "Invalid", "message": "no"},
	{"name": "ratio", "namespace": "shop", "metric": "busy", "from": ["a", "b:last"], "expression": "b > 0.0 ? a / b : 0.0", "state": "Accepted",
	 "operands": [{"name": "a", "metric": "a", "selector": "zone=x"}, {"name": "b", "metric": "b:last"}]}]}`

// An autoscaler's metric of a rule comes with the rule, and its operands as the controller would get them.
func TestExplainNamesTheRuleOfAnAutoscalersMetric(t *testing.T) {
	server := newShop()
	server.answers[inspectAPI+"/namespaces/shop/rules"] = listedRules
	server.answers[CustomAPI+"/namespaces/shop/pods/*/a"] = `{"items": [{"describedObject": {"kind": "Pod", "name": "web-0"}, "metric": {"name": "a"}, "value": "3"}]}`
	_, out, errs := called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	for _, want := range []string{"computed by metricrule/ratio in shop: b > 0.0 ? a / b : 0.0", "a = a with zone=x: 3 (web-0)", "b = b:last: absent: "} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s%s", want, out, errs)
		}
	}
	delete(server.answers, busyPath)
	_, out, _ = called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	if !strings.Contains(out, "Absent operands: b (") || !strings.Contains(out, "sluice explain -n shop b\n") || strings.Contains(out, "did you mean") {
		t.Errorf("without a value:\n%s", out)
	}
	server.forbid = func(path string) bool { return strings.HasSuffix(path, "/a") || strings.HasSuffix(path, "/b:last") }
	_, out, _ = called("explain", "hpa/web", "-n", "shop", "--kubeconfig", answering(t, server.ServeHTTP))
	if !strings.Contains(out, "b = b:last: unknown: ") || strings.Contains(strings.ToLower(out), "absent") {
		t.Errorf("operands that the user may not read:\n%s", out)
	}
}
