package cluster

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := Config{ObjectKinds: []string{"deployments.apps", "Deployment", "", "a.b_c", "pods", "deployments.apps", "jobs.batch"}}
	err := bad.Validate()
	for _, want := range []string{
		`ObjectKinds has "Deployment"; must be plural.group`, `ObjectKinds has ""; must be`, `ObjectKinds has "a.b_c"; must be`,
		`ObjectKinds has "pods", which are always watched`, `ObjectKinds has "deployments.apps" twice`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 5 {
		t.Errorf("want 5 faults: %v", err)
	}
}

func TestNoCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Connect(Config{}, quiet); err == nil || !strings.Contains(err.Error(), "KUBERNETES_SERVICE_HOST") {
		t.Errorf("outside of a cluster: %v", err)
	}
	missing := filepath.Join(t.TempDir(), "nowhere")
	if _, err := Connect(Config{Kubeconfig: missing}, quiet); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("no such kubeconfig: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	if _, err := Connect(Config{}, quiet); err == nil || !strings.Contains(err.Error(), "serviceaccount") {
		t.Errorf("a pod without a service account: %v", err)
	}
}

// A kubeconfig without a server is reported as such, even in a pod.
func TestKubeconfigWithoutACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	file := filepath.Join(t.TempDir(), "kubeconfig")
	for text, want := range map[string]string{
		"":  "0 contexts and no current-context; must have",
		"{": "yaml",
		"contexts: [{name: c, context: {cluster: k}}]":                       "1 contexts and no current-context",
		"current-context: c":                                                 `the current-context "c" is not among the contexts`,
		"{current-context: c, contexts: [{name: c, context: {cluster: k}}]}": `the current-context "c" names the cluster "k", which is not among`,
		"{current-context: c, contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, cluster: {}}]}":                                                         `the cluster "k" has no server`,
		"{current-context: c, contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca}}]}": filepath.Join(filepath.Dir(file), "ca"),
		"{current-context: c, contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]}":                            "",
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := Connect(Config{Kubeconfig: file}, quiet)
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestUserAgent(t *testing.T) {
	agents := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents <- r.UserAgent()
		http.NotFound(w, r)
	}))
	defer s.Close()
	client := (&apiServer{at: s.Listener.Addr().String()}).client(t, &Config{Version: "1.2.3"})
	client.kubernetes.CoreV1().Pods("a").Get(t.Context(), "b", metav1.GetOptions{}) //nolint:errcheck // there is no server
	if got := <-agents; got != "sluice/1.2.3" {
		t.Errorf("the user agent is %q", got)
	}
	if client.REST() == client.rest || client.REST().UserAgent != "sluice/1.2.3" {
		t.Error("REST is no copy of the configuration")
	}
}
