package keda

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/scraper"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// plainAutoscaler scales another Deployment on Sluice's own external metric.
const plainAutoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: plain}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: plain}
  minReplicas: 1
  maxReplicas: 10
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
  metrics: [{type: External, external: {metric: {name: jobs}, target: {type: AverageValue, averageValue: "10"}}}]
`

// sluicesAccount is of the server: its token is what KEDA's adapter is shown.
var sluicesAccount = controlplane.ServiceAccount("sluice") + "---" +
	controlplane.ClusterRoleBinding("sluice", "cluster-admin", controlplane.Account("sluice", "sluice")) + `---
apiVersion: v1
kind: Service
metadata: {name: sluice-api}
spec: {type: ExternalName, externalName: localhost}
`

// TestRoutes: external.metrics.k8s.io is Sluice's, and KEDA's adapter answers for ScaledObjects through it, as it was
// installed: no flag of the adapter or of the operator is changed. Each scales; either is killed and comes back. The
// control plane is its own, since the group changes hands.
func TestRoutes(t *testing.T) {
	t.Parallel()
	s := installed(t, controlplane.DefaultConfig()).routed(t)
	prometheus := scraper.Start(t, "{}")
	s.scaleByCron(t, 3)
	s.scaleByQuery(t, prometheus.Address(), 15)
	s.await(t, "worker", 3)
	s.await(t, "queried", 2)
	s.push(t, jobs(35))
	s.await(t, "plain", 4)

	t.Log("KEDA's adapter is killed")
	s.adapter.Kill()
	metric := s.scaledMetric(t)
	server.Eventually(t, func() string {
		if _, err := s.Get(t.Context(), metric); err == nil || !strings.Contains(err.Error(), "is routed to the provider keda, which cannot be reached") {
			return fmt.Sprintf("without the adapter: %v", err)
		}
		if code, text := s.explain(t); code != 1 || !strings.Contains(text, "Sluice forwards the metric to the provider keda, which cannot be reached") {
			return text
		}
		return ""
	})
	s.push(t, jobs(15))
	s.await(t, "plain", 2)
	must(t, s.runAdapter())
	s.scaleByCron(t, 5)
	s.scaleByQuery(t, prometheus.Address(), 35)
	s.await(t, "worker", 5)
	s.await(t, "queried", 4)
	server.Eventually(t, func() string {
		if code, text := s.explain(t); code != 0 || !strings.Contains(text, "Nothing is wrong.") {
			return text
		}
		return ""
	})

	t.Log("Sluice is killed")
	s.sluice.Kill()
	server.Eventually(t, func() string {
		if _, err := s.Get(t.Context(), metric); err == nil {
			return "the API answers without Sluice"
		}
		return ""
	})
	s.sluice.Start()
	s.push(t, jobs(5))
	s.await(t, "plain", 1)
	s.scaleByCron(t, 7)
	s.scaleByQuery(t, prometheus.Address(), 55)
	s.await(t, "worker", 7)
	s.await(t, "queried", 6)
	if got := s.sluice.Metrics()[`sluice_route_requests_total{provider="keda",result="ok"}`]; got == 0 {
		t.Error("no request was routed")
	}
}

// routed starts a server that owns the group and forwards to KEDA's adapter, and makes what it scales.
func (c *cluster) routed(t *testing.T) *scaled {
	t.Helper()
	s := &scaled{cluster: c, namespace: c.Namespace(t, "routed")}
	c.Apply(t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: sluice}\n")
	c.Apply(t, "sluice", sluicesAccount)
	routes := filepath.Join(t.TempDir(), "routes.yaml")
	text := fmt.Sprintf("providers:\n- {name: keda, url: 'https://localhost:%s', caFile: %s, scaledObjects: true}\n",
		c.adapterPort, filepath.Join(c.folder, "certificates", "ca.crt"))
	must(t, os.WriteFile(routes, []byte(text), 0o600))
	s.sluice = server.InCluster(t, c.ServiceAccountKubeconfig(t, "sluice", "sluice"), "--api-routes-file", routes)
	s.sluice.Start()
	_, port, err := net.SplitHostPort(s.sluice.API)
	must(t, err)
	c.Kubectl(t, "patch", "apiservice", "v1beta1.external.metrics.k8s.io", "--type=merge", "-p",
		`{"spec": {"service": {"namespace": "sluice", "name": "sluice-api", "port": `+port+`}}}`)
	c.Apply(t, "", controlplane.APIService("v1alpha1.inspect.sluice.dev", "sluice", "sluice-api", port))
	c.Apply(t, s.namespace, deployment, pusher, strings.ReplaceAll(deployment, "worker", "plain"), plainAutoscaler,
		strings.ReplaceAll(deployment, "worker", "queried"))
	c.Kubectl(t, "scale", "deployment", "plain", "--replicas=1", "-n", s.namespace)
	s.pusher = netip.MustParseAddr(c.AwaitPods(t, s.namespace, "app=pusher", 1)[0].Status.PodIP)
	return s
}

// scaleByCron scales the Deployment "worker" by a trigger that is active for the next hours.
func (s *scaled) scaleByCron(t *testing.T, replicas int) {
	t.Helper()
	now := time.Now().UTC()
	at := func(moment time.Time) string { return fmt.Sprintf("%d %d * * *", moment.Minute(), moment.Hour()) }
	s.scale(t, scaledObject{1, 5, []string{fmt.Sprintf(`
  - type: cron
    metadata: {timezone: UTC, start: %q, end: %q, desiredReplicas: "%d"}`, at(now.Add(-time.Hour)), at(now.Add(12*time.Hour)), replicas)}})
}

// scaleByQuery scales the Deployment "queried" by a trigger that has a Prometheus compute a value, of which a replica
// takes ten.
func (s *scaled) scaleByQuery(t *testing.T, address string, value int) {
	t.Helper()
	s.Apply(t, s.namespace, fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: queried}
spec:
  scaleTargetRef: {name: queried}
  pollingInterval: 1
  minReplicaCount: 1
  maxReplicaCount: 10
  triggers:
  - type: prometheus
    metadata: {serverAddress: "http://%s", query: "vector(%d)", threshold: "10"}
`, address, value))
}

// scaledMetric is the path at which the autoscaler of KEDA asks.
func (s *scaled) scaledMetric(t *testing.T) string {
	t.Helper()
	names := s.Kubectl(t, "get", "scaledobject", "worker", "-n", s.namespace, "-o", "jsonpath={.status.externalMetricNames[0]}")
	return "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + s.namespace + "/" + names + "?labelSelector=scaledobject.keda.sh%2Fname%3Dworker"
}

// await waits for the replicas of a Deployment.
func (s *scaled) await(t *testing.T, name string, want int32) {
	t.Helper()
	server.Within(t, func() string {
		got := s.Kubectl(t, "get", "deployment", name, "-n", s.namespace, "-o", "jsonpath={.spec.replicas}")
		if got != fmt.Sprint(want) {
			return fmt.Sprintf("%s has %s replicas, want %d\n%s", name, got, want, s.state(t))
		}
		return ""
	})
}
