package cluster

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// A token opens its account's namespace. What another namespace takes is said, and once granted
// works, and once taken away does not.
func tokensOpenTheirNamespace(t *testing.T, c *cluster) {
	ns, other := c.Namespace(t, "tokens"), c.Namespace(t, "granted")
	c.Apply(t, ns, controlplane.ServiceAccount("batch"))
	token := c.tokenFor(t, ns, "batch", "sluice", nil)
	user := `User \"system:serviceaccount:` + ns + `:batch\"`
	mine, theirs := "/v1/namespaces/"+ns+"/external/depth", "/v1/namespaces/"+other+"/external/depth"
	lines := fmt.Sprintf("lines:1|c|#sluice_object:external/%s\n", other)

	c.wantPush(t, token, "PUT", mine, "17", 200, "")
	if body, err := c.Get(t.Context(), external+"/namespaces/"+ns+"/depth"); err != nil || !strings.Contains(string(body), `"value":"17"`) {
		t.Errorf("%s, %v", body, err)
	}
	c.wantPush(t, token, "GET", mine, "", 200, `"value":17`)
	c.wantPush(t, c.Token(t, ns, "batch"), "PUT", mine, "1", 401, `"reason":"credentials"`)
	c.wantPush(t, c.tokenFor(t, ns, "batch", "vault", nil), "PUT", mine, "1", 401, `for the audience \"sluice\"`)
	c.wantPush(t, "e.y.J", "PUT", mine, "1", 401, `for the audience \"sluice\"`)
	c.wantPush(t, "", "PUT", "/v1/external/depth", "1", 401, `may create samples.sluice.dev at the cluster scope`)
	for method, verb := range map[string]string{"PUT": "create", "GET": "get", "DELETE": "delete"} {
		c.wantPush(t, token, method, theirs, "1", 403, `samples.sluice.dev is forbidden: `+user+` cannot `+verb+` resource \"samples\" in API group \"sluice.dev\" in the namespace \"`+other+`\"`)
	}
	c.wantPush(t, token, "PUT", "/v1/external/depth", "1", 403, "at the cluster scope")
	c.wantPush(t, token, "POST", "/v1/statsd", lines, 403, "forbidden")
	c.wantPush(t, token, "PUT", "/metrics/job/a/namespace/"+other, "x 1\n", 403, "forbidden")

	c.Apply(t, other, controlplane.Role("pusher", controlplane.Account(ns, "batch"),
		"{apiGroups: [sluice.dev], resources: [samples], verbs: [create, get, delete]}"))
	granted := time.Now()
	within(t, func() error { return c.tryPush(t, token, "POST", "/v1/statsd", lines, 200) })
	t.Logf("granted rights work after %v", time.Since(granted).Round(time.Millisecond))
	question := filepath.Join(t.TempDir(), "review.yaml") // as docs/push-auth.md has it
	if err := os.WriteFile(question, fmt.Appendf(nil, `
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec:
  user: system:serviceaccount:%s:batch
  resourceAttributes: {group: sluice.dev, resource: samples, verb: create, namespace: %s}
`, ns, other), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := c.Kubectl(t, "create", "--validate=false", "-f", question, "-o", "jsonpath={.status.allowed}"); out != "true" {
		t.Errorf("a review by kubectl says %q", out)
	}
	c.wantPush(t, token, "PUT", theirs, "5", 200, "")
	c.wantPush(t, token, "GET", theirs, "", 200, `"value":5`)
	c.wantPush(t, token, "PUT", "/metrics/job/a/namespace/"+other, "grouped 1\n", 200, "")
	if text := c.wantPush(t, token, "GET", "/metrics", "", 200, ""); !strings.Contains(text, `namespace="`+other+`"`) {
		t.Errorf("it may read, and reads\n%s", text)
	}
	if text := c.wantPush(t, c.tokenFor(t, c.Namespace(t, "curious"), "default", "sluice", nil), "GET", "/metrics", "", 200, ""); strings.Contains(text, other) {
		t.Errorf("another account reads\n%s", text)
	}

	c.Kubectl(t, "--namespace", other, "delete", "rolebinding", "pusher")
	within(t, func() error { return c.tryPush(t, token, "POST", "/v1/statsd", lines, 403) })
	within(t, func() error { return c.tryPush(t, token, "GET", theirs, "", 403) })
	c.Kubectl(t, "--namespace", ns, "delete", "serviceaccount", "batch")
	within(t, func() error { return c.tryPush(t, token, "PUT", mine, "1", 401) })
}

// A token that is bound to a pod speaks of that pod, from whatever address.
func boundTokensNameTheirPod(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "bound")
	pod, other := c.pod(t, ns, "web", "default"), c.pod(t, ns, "neighbour", "default")
	token := c.tokenFor(t, ns, "default", "sluice", &authentication.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID})
	c.wantPush(t, token, "POST", "/v1/statsd", "hits:3|c\n", 200, "")
	c.wantPush(t, token, "PUT", "/v1/namespaces/"+ns+"/pods/web/load", "2", 200, "")
	c.wantPush(t, token, "PUT", "/v1/namespaces/"+ns+"/pods/"+other.Name+"/load", "9", 403, "may only describe itself")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{"web": 3})
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/load", map[string]float64{"web": 2})
	unbound := c.tokenFor(t, ns, "default", "sluice", nil)
	c.wantPush(t, unbound, "PUT", "/v1/namespaces/"+ns+"/pods/web/load", "9", 403, `may only describe`)
	c.deletePod(t, ns, "web")
	within(t, func() error { return c.tryPush(t, token, "POST", "/v1/statsd", "hits:3|c\n", 401) })
}

// Without its API server Sluice does not say that a token is no good: whoever pushes shall come
// again.
func TestTokensWithoutAPIServer(t *testing.T) {
	t.Parallel()
	plane := controlplane.Shared(t)
	plane.Apply(t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: away}\n")
	plane.Apply(t, "away", controlplane.ServiceAccount("batch"), controlplane.ServiceAccount("server"),
		controlplane.ClusterRoleBinding("away", "cluster-admin", controlplane.Account("away", "server")))
	wire, kubeconfig := cut(t, plane)
	c := &cluster{ControlPlane: plane, sluice: server.InCluster(t, kubeconfig, "--push-auth", "token")}
	c.sluice.Start()
	known, fresh := c.tokenFor(t, "away", "batch", "sluice", nil), c.tokenFor(t, "away", "batch", "sluice", nil)
	const path = "/v1/namespaces/away/external/depth"
	c.wantPush(t, known, "PUT", path, "1", 200, "")
	wire.cut()
	c.wantPush(t, known, "PUT", path, "2", 200, "")
	c.wantPush(t, fresh, "PUT", path, "3", 503, `"reason":"unavailable"`)
	c.wantPush(t, known, "PUT", "/v1/namespaces/elsewhere/external/depth", "3", 503, `"reason":"unavailable"`)
	time.Sleep(10 * time.Second)
	c.wantPush(t, known, "PUT", path, "4", 503, `"reason":"unavailable"`)
	wire.mend()
	within(t, func() error { return c.tryPush(t, fresh, "PUT", path, "5", 200) })
}

// tokenFor is a token of a service account for an audience, perhaps bound.
func (c *cluster) tokenFor(t *testing.T, namespace, account, audience string, bound *authentication.BoundObjectReference) string {
	t.Helper()
	var token string
	within(t, func() error { // a new namespace gets its account from the controller manager
		request, err := c.Kubernetes.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authentication.TokenRequest{
			Spec: authentication.TokenRequestSpec{Audiences: []string{audience}, BoundObjectRef: bound},
		}, metav1.CreateOptions{})
		if err == nil {
			token = request.Status.Token
		}
		return err
	})
	return token
}

func (c *cluster) wantPush(t *testing.T, token, method, path, body string, status int, says string) string {
	t.Helper()
	got, text := c.pushAs(t, token, method, path, body)
	if got.StatusCode != status || !strings.Contains(text, says) {
		t.Errorf("%s %s: %s %s; want %d %s", method, path, got.Status, text, status, says)
	}
	if (status == 401) != (got.Header.Get("WWW-Authenticate") != "") || (status == 503) != (got.Header.Get("Retry-After") != "") {
		t.Errorf("%s %s: %d with the headers %v", method, path, status, got.Header)
	}
	return text
}

func (c *cluster) tryPush(t *testing.T, token, method, path, body string, status int) error {
	if got, text := c.pushAs(t, token, method, path, body); got.StatusCode != status {
		return fmt.Errorf("%s %s: %s %s; want %d", method, path, got.Status, text, status)
	}
	return nil
}

// pushAs sends a request from an address that is no pod's.
func (c *cluster) pushAs(t *testing.T, token, method, path, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.sluice.HTTP+path, strings.NewReader(body))
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer, string(text)
}

// wire carries connections to the API server until it is cut.
type wire struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	dead bool
	open []net.Conn
}

// cut makes a wire to the control plane, and a kubeconfig of the service account "server" of the
// namespace "away" that leads through it.
func cut(t *testing.T, plane *controlplane.ControlPlane) (*wire, string) {
	t.Helper()
	file, err := clientcmd.LoadFromFile(plane.ServiceAccountKubeconfig(t, "away", "server"))
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	w := &wire{listener: listener}
	for _, one := range file.Clusters {
		w.to = strings.TrimPrefix(one.Server, "https://")
		one.Server = "https://" + listener.Addr().String()
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*file, path))
	go w.run()
	return w, path
}

func (w *wire) run() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", w.to)
		w.mu.Lock()
		if err != nil || w.dead {
			from.Close()
			w.mu.Unlock()
			continue
		}
		w.open = append(w.open, from, to)
		w.mu.Unlock()
		go func() { _, _ = io.Copy(to, from); to.Close() }()
		go func() { _, _ = io.Copy(from, to); from.Close() }()
	}
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for _, one := range w.open {
		one.Close()
	}
	w.open = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = false
}
