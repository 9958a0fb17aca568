package cluster

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	theirs    = "datadogmetric@shop:orders"
	ownGroups = "/apis/external.metrics.sluice.dev/v1beta1"
)

// TestRoutes: autoscalers on Sluice's own external metric and on another provider's, in one API. The provider is a
// real API server of external metrics in a process of its own, a Sluice without routes: it asks the cluster who asks,
// and whether the service account of the chart may. It is killed, and comes back.
func TestRoutes(t *testing.T) {
	t.Parallel()
	plane := controlplane.New(t, controlplane.DefaultConfig())
	other := server.InCluster(t, plane.Kubeconfig, "--trusted-forwarders", "127.0.0.0/8")
	other.Start()
	c := installRouting(t, plane, other)
	e := c.explained(t, "routes")
	other.PutSynced(e.ns, theirs, 35)
	c.Apply(t, e.ns, deployment("worker"), deployment("foreign"),
		scaledBy("worker", externalMetric("orders", "", "10")), scaledBy("foreign", externalMetric(theirs, "", "10")))
	batch := addressOf(t, c.pod(t, e.ns, "batch", "default"))
	own := func(value string) {
		t.Helper()
		c.push(t, batch, http.MethodPut, "/v1/namespaces/"+e.ns+"/external/orders", value, http.StatusOK)
	}
	own("25")
	c.wantReplicas(t, e.ns, "worker", 3)
	c.wantReplicas(t, e.ns, "foreign", 4)
	t.Run("discovery is the union", func(t *testing.T) {
		within(t, func() error {
			body, err := c.Get(t.Context(), external)
			if err != nil || !strings.Contains(string(body), `"orders"`) || !strings.Contains(string(body), `"`+theirs+`"`) {
				return fmt.Errorf("%s %w", body, err)
			}
			return nil
		})
	})
	t.Run("rights are asked here", func(t *testing.T) {
		stranger := c.As(t, "stranger", "system:authenticated")
		_, err := stranger.Get(t.Context(), external+"/namespaces/"+e.ns+"/"+theirs)
		if err == nil || !strings.Contains(err.Error(), `User "stranger" cannot list resource "`+theirs+`"`) {
			t.Error(err)
		}
	})
	t.Run("groups of Sluice's own name", func(t *testing.T) {
		c.Kubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/v1beta1.external.metrics.sluice.dev",
			"apiservice/v1beta2.custom.metrics.sluice.dev")
		body, err := c.Get(t.Context(), ownGroups+"/namespaces/"+e.ns+"/orders")
		if err != nil || !strings.Contains(string(body), `"value":"25"`) || !strings.Contains(string(body), `"apiVersion":"external.metrics.sluice.dev/v1beta1"`) {
			t.Errorf("%s %v", body, err)
		}
	})
	t.Run("explain names the provider", func(t *testing.T) {
		e.awaitAutoscaler(t, "foreign")
		within(t, func() error {
			code, text, fault := e.explain(t, "hpa/foreign")
			if code != 0 || !strings.Contains(text, "answered by the provider theirs") {
				return fmt.Errorf("%d %s%s", code, text, fault)
			}
			return nil
		})
	})

	other.Kill()
	within(t, func() error {
		_, err := c.Get(t.Context(), external+"/namespaces/"+e.ns+"/"+theirs)
		if err == nil || !strings.Contains(err.Error(), "is routed to the provider theirs, which cannot be reached at https://localhost:") {
			return fmt.Errorf("without the provider: %w", err)
		}
		code, text, _ := e.explain(t, "hpa/foreign")
		if code != 1 || !strings.Contains(text, "Sluice forwards the metric to the provider theirs, which cannot be reached") {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	own("45")
	c.wantReplicas(t, e.ns, "worker", 5)
	c.wantReplicas(t, e.ns, "foreign", 4)
	other.Start()
	other.PutSynced(e.ns, theirs, 15)
	c.wantReplicas(t, e.ns, "foreign", 2)
	own("5")
	c.wantReplicas(t, e.ns, "worker", 1)
}

// installRouting installs the chart with a route to another server of external metrics.
func installRouting(t *testing.T, plane *controlplane.ControlPlane, other *server.Server) *cluster {
	t.Helper()
	objects := render(t, "route.yaml", "--set-file", "externalMetrics.route[0].caBundle="+filepath.Join(other.DataDir(), "ca.crt"))
	_, port, err := net.SplitHostPort(other.API)
	must(t, err)
	folder := t.TempDir()
	for _, object := range objects {
		files, found, _ := unstructured.NestedStringMap(object.Object, "data")
		if !found || object.GetName() != "sluice-routes" {
			continue
		}
		for name, text := range files { // the Service and the mount of the pod are here
			text = strings.NewReplacer("https://metrics.theirs.svc:443", "https://localhost:"+port, "/etc/sluice/routes", folder).Replace(text)
			must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		}
	}
	return installObjects(t, plane, objects, "--api-routes-file", filepath.Join(folder, "routes.yaml"))
}

// scaledBy is an autoscaler of a Deployment on one metric.
func scaledBy(deployment, metric string) string {
	return strings.NewReplacer("kind: StatefulSet, name: web", "kind: Deployment, name: "+deployment).Replace(hpa(deployment, metric))
}
