package cluster

import (
	"encoding/base64"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
)

// The causes that concern a whole cluster, one after the other, each mended afterwards.
func breaksTheCluster(t *testing.T, c *cluster) {
	e := c.explained(t, "cluster")
	e.workload(t, "web", 1)(0, "busy:10|g")
	e.Apply(t, e.ns, hpa("web", podsMetric("busy", "10")))
	e.wantStatus(t, autoscaling.ScalingActive, core.ConditionTrue, "")
	// The right is the only one that the explanation mends.
	e.controllerLacksARight(t)

	was := map[string]string{}
	for _, version := range customVersions {
		was[version] = c.Kubectl(t, "get", "apiservice", version, "-o", "json")
	}
	restore := func() {
		for _, version := range customVersions {
			c.patchService(t, version, specOf(t, was[version]))
			c.Kubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/"+version)
		}
	}
	stranger, err := os.ReadFile(c.CA)
	must(t, err)
	for _, one := range []struct {
		name, patch string
		want        []string
	}{
		{"certificate", `{"spec": {"caBundle": "` + base64.StdEncoding.EncodeToString(stranger) + `"}}`, []string{"unavailable"}},
		{"unreachable", `{"spec": {"service": {"port": 1}}}`, []string{"unreachable"}},
		{"another-owner", `{"spec": {"service": {"name": "keda-operator-metrics-apiserver", "namespace": "keda"}}}`, []string{"not-registered"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			for _, version := range customVersions {
				c.patchService(t, version, one.patch)
			}
			e.wantStatus(t, autoscaling.ScalingActive, core.ConditionFalse, "FailedGetPodsMetric")
			e.wantCause(t, one.name, one.want)
		})
		restore()
		e.wantStatus(t, autoscaling.ScalingActive, core.ConditionTrue, "")
	}
	t.Run("not-registered", func(t *testing.T) {
		c.Kubectl(t, append([]string{"delete", "apiservice"}, customVersions...)...)
		e.wantStatus(t, autoscaling.ScalingActive, core.ConditionFalse, "FailedGetPodsMetric")
		e.wantCause(t, "not-registered", []string{"not-registered"})
	})
}

var customVersions = []string{"v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"}

func (c *cluster) patchService(t *testing.T, name, patch string) {
	t.Helper()
	c.Kubectl(t, "patch", "apiservice", name, "--type=merge", "-p", patch)
}

// specOf is a patch that restores the spec of an APIService.
func specOf(t *testing.T, object string) string {
	t.Helper()
	one := decode(t, object)[0]
	one.Object = map[string]any{"apiVersion": one.GetAPIVersion(), "kind": one.GetKind(), "spec": one.Object["spec"]}
	text, err := one.MarshalJSON()
	must(t, err)
	return string(text)
}

// controllerLacksARight takes the rights from the HPA controller. The commands of the explanation
// give them back.
func (e *explained) controllerLacksARight(t *testing.T) {
	const role = "system:controller:horizontal-pod-autoscaler"
	e.Kubectl(t, "delete", "clusterrolebinding", "sluice-reader")
	e.Kubectl(t, "patch", "clusterrole", role, "--type=json", "-p", e.withoutMetrics(t, role))
	e.wantStatus(t, autoscaling.ScalingActive, core.ConditionFalse, "FailedGetPodsMetric")
	e.wantCause(t, "controller-right", []string{"right-missing"})
	_, text, _ := e.explain(t, "hpa/web")
	commands := regexp.MustCompile(`(?m)^    kubectl (create .*)$`).FindAllStringSubmatch(text, -1)
	if len(commands) == 0 {
		t.Fatalf("no command mends it:\n%s", text)
	}
	for _, one := range commands {
		e.Kubectl(t, strings.Fields(strings.ReplaceAll(one[1], "'", ""))...)
	}
	e.wantStatus(t, autoscaling.ScalingActive, core.ConditionTrue, "")
	e.wantCause(t, "controller-right-mended", nil)
}

// withoutMetrics is a patch that leaves a role no rule of the custom metrics API.
func (e *explained) withoutMetrics(t *testing.T, role string) string {
	t.Helper()
	groups := strings.Split(e.Kubectl(t, "get", "clusterrole", role, "-o", `jsonpath={range .rules[*]}{.apiGroups}{"\n"}{end}`), "\n")
	var patch []string
	for i := len(groups) - 1; i >= 0; i-- {
		if strings.Contains(groups[i], "custom.metrics") {
			patch = append(patch, `{"op": "remove", "path": "/rules/`+strconv.Itoa(i)+`"}`)
		}
	}
	return "[" + strings.Join(patch, ",") + "]"
}
