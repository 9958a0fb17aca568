package client

import (
	"strings"
	"testing"
)

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
