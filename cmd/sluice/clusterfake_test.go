package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
)

// fakeCluster is the part of an API server that a server of a cluster needs: everybody is alice and may do
// everything. Its objects do not change, except for those that are created.
type fakeCluster struct {
	kinds map[string]string // by path of the list
	items map[string][]any  // by path of the list
	// faults are the status codes of lists that are not answered, by path.
	faults map[string]int
	mu     sync.Mutex // guards changes of faults
	// created are objects that a watch tells of, by path of the list, as PartialObjectMetadata.
	created map[string]chan any
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{items: map[string][]any{}, kinds: map[string]string{
		"/api/v1/pods": "Pod", "/api/v1/limitranges": "LimitRange", "/api/v1/namespaces": "Namespace", "/api/v1/services": "Service",
		"/api/v1/configmaps":        "ConfigMap",
		"/apis/apps/v1/deployments": "Deployment", "/apis/apps/v1/replicasets": "ReplicaSet",
		"/apis/autoscaling/v2/horizontalpodautoscalers":           "HorizontalPodAutoscaler",
		"/apis/sluice.dev/v1alpha1/externalmetricpolicies":        "ExternalMetricPolicy",
		"/apis/sluice.dev/v1alpha1/clusterexternalmetricpolicies": "ClusterExternalMetricPolicy",
		"/apis/sluice.dev/v1alpha1/metricrules":                   "MetricRule",
		"/apis/sluice.dev/v1alpha1/clustermetricrules":            "ClusterMetricRule",
		"/api/v1/namespaces/kube-system/configmaps":               "ConfigMap",
	}}
}

// forbid has a list be forbidden, or no longer.
func (c *fakeCluster) forbid(path string, forbidden bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults == nil {
		c.faults = map[string]int{}
	}
	if delete(c.faults, path); forbidden {
		c.faults[path] = http.StatusForbidden
	}
}

func (c *fakeCluster) fault(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults[path]
}

// ServeHTTP implements http.Handler.
func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	kind, list := c.kinds[r.URL.Path]
	group, name := r.URL.Path[:max(0, strings.LastIndex(r.URL.Path, "/"))], ""
	answer, fault := map[string]any{}, c.fault(r.URL.Path)
	switch {
	case fault != 0:
		w.WriteHeader(fault)
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": fault}
		if fault == http.StatusForbidden {
			answer["reason"] = "Forbidden"
		}
	case list && r.URL.Query().Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}
	case list && r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case one := <-c.created[r.URL.Path]:
				_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": one})
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	case list:
		version := strings.TrimPrefix(strings.TrimPrefix(group, "/apis/"), "/api/")
		if kind == "ConfigMap" {
			version = "v1"
		}
		items := c.items[r.URL.Path]
		if items == nil {
			items = []any{}
		}
		answer = map[string]any{"kind": kind + "List", "apiVersion": version, "metadata": map[string]string{"resourceVersion": "1"}, "items": items}
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"), strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		_ = json.NewDecoder(r.Body).Decode(&answer)
		answer["status"] = map[string]any{"allowed": true, "authenticated": true, "user": map[string]any{"username": "alice"}, "audiences": []string{"sluice"}}
	case r.URL.Path == "/api":
		answer = map[string]any{"kind": "APIVersions", "versions": []string{"v1"}}
	case r.URL.Path == "/apis":
		var groups []any
		for _, one := range []string{"apps/v1", "autoscaling/v2", "sluice.dev/v1alpha1"} {
			name, version, _ := strings.Cut(one, "/")
			at := map[string]string{"groupVersion": one, "version": version}
			groups = append(groups, map[string]any{"name": name, "versions": []any{at}, "preferredVersion": at})
		}
		answer = map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
	default:
		resources := []any{}
		for path, kind := range c.kinds {
			if group, name = path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/")+1:]; group == r.URL.Path {
				resources = append(resources, map[string]any{"name": name, "kind": kind, "namespaced": kind != "Namespace", "verbs": []string{"list", "watch"}})
			}
		}
		answer = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "resources": resources}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// startedIn is a server of a cluster, once it has read the cluster. The loopback address is a trusted
// forwarder.
func startedIn(t *testing.T, c *fakeCluster, args ...string) *dataPath {
	t.Helper()
	return startedWithData(t, c, filepath.Join(t.TempDir(), "data"), args...)
}

// startedWithData is startedIn with a data folder.
func startedWithData(t *testing.T, c *fakeCluster, data string, args ...string) *dataPath {
	t.Helper()
	p := started(t, data, append(clusterFlags(t, c), args...)...)
	awaitCluster(t, p)
	return p
}

// awaitCluster waits until a server has read its cluster.
func awaitCluster(t *testing.T, p *dataPath) {
	t.Helper()
	var why string
	eventually(t, func() (ready bool) {
		ready, why = p.cluster.state()
		return ready
	}, func() string { return why })
}

// clusterFlags are the flags of a server of a cluster.
func clusterFlags(t *testing.T, c *fakeCluster) []string {
	t.Helper()
	dir := t.TempDir()
	_, _, frontProxy := testauthority.New(t).Sign(t, dir, testauthority.Leaf{})
	authority, err := os.ReadFile(frontProxy)
	must(t, err)
	c.items["/api/v1/namespaces/kube-system/configmaps"] = []any{map[string]any{
		"metadata": map[string]any{"namespace": "kube-system", "name": "extension-apiserver-authentication"},
		"data": map[string]string{"requestheader-client-ca-file": string(authority), "requestheader-username-headers": `["X-Remote-User"]`,
			"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`, "requestheader-allowed-names": `["proxy"]`}}}
	server := httptest.NewServer(c)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	kubeconfig := filepath.Join(dir, "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]\n" +
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	must(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	return []string{"--standalone=false", "--kubeconfig", kubeconfig, "--trusted-forwarders", "127.0.0.1/32"}
}
