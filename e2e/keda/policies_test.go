package keda

import (
	"bytes"
	"os/exec"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// withPolicies installs the chart's kinds of policies.
func (c *cluster) withPolicies(t *testing.T) {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command("go", "-C", "../../tools", "tool", "helm", "template", "sluice", "../charts/sluice",
		"--kube-version", "1.36.0", "--show-only", "templates/crd-externalmetricpolicies.yaml")
	cmd.Stderr = &errs
	definitions, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	c.Apply(t, "", string(definitions))
	server.Within(t, func() string {
		if _, err := c.TryKubectl(t, "get", "externalmetricpolicies,clusterexternalmetricpolicies", "-A"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// guard denies the metric jobs in the namespace.
const guard = `
apiVersion: sluice.dev/v1alpha1
kind: ExternalMetricPolicy
metadata: {name: guard}
spec: {rules: [{metric: jobs, deny: true}]}
`

// TestPolicies: of a trigger that a policy denies, the ScaledObject's Event names policy and rule, whether
// the policy was there before or came later. Replicas stay meanwhile, and without the policy the trigger
// works again.
func TestPolicies(t *testing.T) {
	t.Parallel()
	shared(t).withPolicies(t)
	s := prepare(t, "policies")
	denied := func(reason string) {
		t.Helper()
		s.awaitEvent(t, reason, "PermissionDenied", `the external metric "jobs:last" is denied by rules[0] of externalmetricpolicy/guard in the namespace `+s.namespace)
	}
	s.Apply(t, s.namespace, guard)
	s.push(t, jobs(35))
	s.scale(t, scaledObject{2, 5, []string{s.trigger(`metric: "jobs:last"`, `absent: "0"`)}})
	denied("KEDAScalerFailed")
	s.steady(t, 0, 3*time.Second)

	s.Kubectl(t, "delete", "externalmetricpolicy", "guard", "-n", s.namespace)
	s.awaitReplicas(t, 4)
	s.awaitStream(t)

	s.Kubectl(t, "delete", "events", "--all", "-n", s.namespace)
	s.Apply(t, s.namespace, guard)
	s.push(t, jobs(75))
	denied("KEDAScalerFailed")
	s.steady(t, 4, 10*time.Second)

	s.Kubectl(t, "delete", "externalmetricpolicy", "guard", "-n", s.namespace)
	s.awaitReplicas(t, 8)
	s.push(t, jobs(0))
	s.awaitReplicas(t, 0)
	s.awaitStream(t)
	t.Logf("after the push: %s", s.woken(t, 2*pushed, func() { s.push(t, jobs(1)) }))
}
