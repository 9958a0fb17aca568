package client

import (
	"strings"
	"testing"
)

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
