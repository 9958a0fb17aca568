package keda

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

// failures are the rows of the table "Failures and fallback" in docs/keda.md: what is broken, and whether KEDA
// then sets the replicas of spec.fallback.
var failures = []struct {
	name     string
	fallback bool
	breaks   func(*testing.T, *scaled)
}{
	{"absent", true, func(t *testing.T, s *scaled) { s.forget(t, "jobs") }},
	{"denied by a policy", true, func(t *testing.T, s *scaled) {
		s.withPolicies(t)
		s.Apply(t, s.namespace, guard)
	}},
	{"away", false, func(_ *testing.T, s *scaled) { s.sluice.Kill() }},
	{"frozen", false, func(t *testing.T, s *scaled) {
		pid := s.sluice.PID()
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}},
	{"certificate of the server ended", false, func(t *testing.T, s *scaled) {
		s.serverCertificate(t, -time.Hour)
		s.sluice.Stop()
		s.sluice.Start()
	}},
	{"certificate of the operator ended", false, func(t *testing.T, s *scaled) {
		s.credentials(t, s.authority, operatorName, -time.Hour)
		s.sluice.Stop()
		s.sluice.Start()
	}},
}

// Each failure of Sluice, as an autoscaler of KEDA with a fallback lives through it: the fallback's replicas where
// the table says so, and otherwise those that it has. Without the failure it scales again.
func TestFailures(t *testing.T) {
	t.Parallel()
	for i, failure := range failures {
		t.Run(failure.name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, fmt.Sprint("failure-", i))
			s.push(t, jobs(35))
			s.scaleWithFallback(t)
			s.awaitReplicas(t, 4)
			failure.breaks(t, s)
			s.awaitFallback(t, failure.fallback)
		})
	}
}

// While another server owns external.metrics.k8s.io, KEDA is not asked, so no fallback is set.
func TestAnotherOwnerOfTheAPI(t *testing.T) { // not parallel: the API is that of all tests
	s := prepare(t, "owner")
	s.push(t, jobs(35))
	s.scaleWithFallback(t)
	s.awaitReplicas(t, 4)
	const name = "v1beta1.external.metrics.k8s.io"
	own := strings.TrimSpace(s.Kubectl(t, "get", "apiservice", name, "-o", "jsonpath={.spec.service.port}"))
	port := func(port string) {
		s.Kubectl(t, "patch", "apiservice", name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"service":{"port":%s}}}`, port))
	}
	port("1")
	defer port(own)
	s.awaitFallback(t, false)
	port(own)
	s.push(t, jobs(55))
	s.awaitReplicas(t, 6)
}

// scaleWithFallback scales on jobs:last, of which nothing is said while it is absent.
func (s *scaled) scaleWithFallback(t *testing.T) {
	t.Helper()
	s.Apply(t, s.namespace, fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: worker}
spec:
  scaleTargetRef: {name: worker}
  pollingInterval: 1
  minReplicaCount: 1
  maxReplicaCount: 10
  fallback: {failureThreshold: 2, replicas: 7}
  triggers:%s
`, s.trigger(`metric: "jobs:last"`)))
	s.awaitReady(t, "True")
}

// awaitFallback waits for the fallback's replicas, or sees that the replicas stay through ten polls.
func (s *scaled) awaitFallback(t *testing.T, fires bool) {
	t.Helper()
	if fires {
		s.awaitReplicas(t, 7)
		return
	}
	s.steady(t, 4, 20*time.Second)
}

// forget deletes a metric of the namespace, as the pod may.
func (s *scaled) forget(t *testing.T, metric string) {
	t.Helper()
	from := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.pusher, 0))}
	client := &http.Client{Transport: &http.Transport{DialContext: from.DialContext}}
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("http://%s/v1/namespaces/%s/external/%s", s.sluice.HTTP, s.namespace, metric)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
	must(t, err)
	answer, err := client.Do(request)
	must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("DELETE %s: %s: %s", url, answer.Status, text)
	}
}
