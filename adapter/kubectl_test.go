package adapter

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl runs the real program against the server, or skips the test if it is not installed.
func (a *api) kubectl(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not on PATH")
	}
	home := t.TempDir()
	config := filepath.Join(home, "config")
	content := `{"apiVersion": "v1", "kind": "Config", "current-context": "sluice",
 "clusters": [{"name": "sluice", "cluster": {"server": "` + a.url + `", "insecure-skip-tls-verify": true}}],
 "contexts": [{"name": "sluice", "context": {"cluster": "sluice", "user": "nobody"}}], "users": [{"name": "nobody", "user": {"token": "anybody"}}]}`
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"--kubeconfig", config}, args...)...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

func TestKubectlGetRaw(t *testing.T) {
	a := start(t, shop())
	for path, value := range map[string]string{
		customRoot + "v1beta1/namespaces/shop/pods/*/http_requests":          "12500m",
		customRoot + "v1beta2/namespaces/shop/pods/web-1/http_requests:rate": "12500m",
		customRoot + `v1beta2/namespaces/shop/pods/web-1/fs\|usage`:          "250m",
		customRoot + "v1beta2/namespaces/shop/metrics/queue-length":          "7",
		externalRoot + `namespaces/shop/jobs\|done`:                          "333333333n",
	} {
		out, complaints, err := a.kubectl(t, "get", "--raw", path)
		var list struct{ Items []struct{ Value string } }
		if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list.Items) == 0 || list.Items[0].Value != value {
			t.Errorf("%s: %v %s %s, want %s", path, err, out, complaints, value)
		}
	}
	_, complaints, err := a.kubectl(t, "get", "--raw", externalRoot+"namespaces/shop/nope")
	if err == nil || !strings.Contains(complaints, "last seen 26h ago") {
		t.Errorf("%v: %s", err, complaints)
	}
}

// kubectl requests the aggregated form, and /api.
func TestKubectlAPIResources(t *testing.T) {
	a := start(t, shop())
	out, complaints, err := a.kubectl(t, "api-resources")
	if err != nil || complaints != "" || !strings.Contains(out, "orders_waiting") || !strings.Contains(out, "ExternalMetricValueList") {
		t.Errorf("%v %s\n%s", err, complaints, out)
	}
	out, complaints, err = a.kubectl(t, "api-versions")
	for _, want := range []string{"custom.metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1beta2", "external.metrics.k8s.io/v1beta1"} {
		if err != nil || complaints != "" || !strings.Contains(out, want) {
			t.Errorf("no %s: %v %s\n%s", want, err, complaints, out)
		}
	}
}
