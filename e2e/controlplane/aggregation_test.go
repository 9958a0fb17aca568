package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// asker is what an aggregated server learns of a request.
type asker struct {
	User, Proxy string
	Groups      []string
}

// aggregated is a server that says who asked, and believes nobody but the API server.
func aggregated(t *testing.T, c *ControlPlane) (port string) {
	t.Helper()
	pem, err := os.ReadFile(c.FrontProxyCA)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis/e2e.sluice.dev/v1" {
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"e2e.sluice.dev/v1","resources":[{"name":"askers","singularName":"asker","namespaced":false,"kind":"Asker","verbs":["get"]}]}`)
			return
		}
		_ = json.NewEncoder(w).Encode(asker{r.Header.Get("X-Remote-User"), r.TLS.PeerCertificates[0].Subject.CommonName, r.Header.Values("X-Remote-Group")})
	}))
	server.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err = net.SplitHostPort(server.Listener.Addr().String())
	must(t, err)
	return port
}

// The way that the metrics APIs will go: an APIService, a Service that leads to this machine, and
// the front proxy's certificate, which says who asks.
func TestAggregatedServerLearnsWhoAsks(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t, "aggregated")
	c.Apply(t, ns, `
apiVersion: v1
kind: Service
metadata: {name: askers}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: `+ns+`}
rules: [{apiGroups: [e2e.sluice.dev], resources: [askers], verbs: [get]}]
`, APIService("v1.e2e.sluice.dev", ns, "askers", aggregated(t, c)), ClusterRoleBinding(ns, ns, User("jane")))
	t.Cleanup(func() { // the shared control plane's discovery is to be whole for the other tests
		if _, err := c.TryKubectl(t, "delete", "apiservice", "v1.e2e.sluice.dev"); err != nil {
			t.Error(err)
		}
	})
	c.Kubectl(t, "wait", "--for=condition=Available", "apiservice/v1.e2e.sluice.dev", "--timeout=5m")
	if out := c.Kubectl(t, "api-resources", "--api-group=e2e.sluice.dev"); !strings.Contains(out, "askers") {
		t.Errorf("kubectl api-resources says\n%s\nwant askers", out)
	}

	body, err := c.As(t, "jane", "shoppers").Get(t.Context(), "/apis/e2e.sluice.dev/v1/askers/me")
	must(t, err)
	var got asker
	must(t, json.Unmarshal(body, &got))
	if got.User != "jane" || got.Proxy != frontProxyName || !strings.Contains(strings.Join(got.Groups, " "), "shoppers") {
		t.Errorf("the server learned %+v, want jane of shoppers from %s", got, frontProxyName)
	}
}
