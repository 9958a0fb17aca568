package cluster

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/sluice-metrics/sluice/e2e/browser"
	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The console shows a broken autoscaler on top, and why it is broken; and of one that works its
// values against the target, over time.
func showsAutoscalersInABrowser(t *testing.T, c *cluster) {
	b := browser.New(t)
	good, bad := c.Namespace(t, "shop"), c.Namespace(t, "billing")
	c.Apply(t, good, example(t, "hpa-pods.yaml", good))
	c.Apply(t, bad, strings.ReplaceAll(example(t, "hpa-pods.yaml", bad), "http_requests", "http_reqests"))
	address := addressOf(t, c.AwaitPods(t, good, "app=web", 1)[0])
	c.repeat(t, address, func() string { return "http_requests:3|c" })
	c.sendFrom(t, addressOf(t, c.AwaitPods(t, bad, "app=web", 1)[0]), "http_requests:1|c")
	root := "http://" + c.sluice.Console

	b.Open(root + "/overview")
	b.Await(`[...document.querySelectorAll("tr.broken")].some((row) => row.innerText.includes("` + bad + `/"))`)
	b.Await(`[...document.querySelectorAll("tbody tr")].some((row) => row.innerText.includes("` + good + `/") && row.className !== "broken" && row.querySelector(".bar"))`)
	if !browser.Evaluate[bool](b, `document.querySelector("tbody tr").className === "broken"`) {
		t.Error("the first row is no broken autoscaler")
	}
	b.Await(`[...document.querySelectorAll("tbody tr")].some((row) => row.innerText.includes("` + good + `/") && row.querySelectorAll(".spark").length === 2 && row.cells[2].innerText.trim()[0] !== "0")`)
	b.Screen(1200, 380, "light")
	b.Picture("overview-of-two")
	b.Screen(1200, 900, "light")

	b.Do(chromedp.Click(`//tr[.//bdi[text()="` + bad + `/web"]]//a`))
	b.Await(`document.querySelector(".finding")?.innerText.includes("http_requests")`)
	b.Picture("broken")

	b.Open(root + "/autoscaler?namespace=" + good + "&name=web")
	b.Await(`document.querySelectorAll("figure.drawn").length === 2 && document.body.innerText.includes("Arithmetic")`)
	b.Await(`document.querySelector("#plot-metric0 canvas").getAttribute("aria-label").includes("target 10")`)
	if os.Getenv("SLUICE_PICTURES") != "" {
		b.Screen(1200, 1150, "light")
		time.Sleep(90 * time.Second)
		b.Picture("autoscaler")
	}
	b.Await(`document.body.innerText.includes("controller asked this replica for it")`)
	if text := browser.Evaluate[string](b, "document.body.innerText"); strings.Contains(text, "has not asked this replica") {
		t.Errorf("the controller's questions are not seen:\n%s", text)
	}

	c.followsAPushToAnAutoscaler(t, b, good, address)
	for _, name := range []string{"cache_hits", "cache_misses", "db_queries", "logins", "mails", "retries"} {
		c.sendFrom(t, address, name+":1|c")
	}
	b.Screen(1200, 560, "light")
	b.Open(root + "/limits?namespace=" + good)
	b.Await(`["used up", "http_requests", "autoscaler", "wanted: 7 metrics"].every((text) => document.body.innerText.includes(text))`)
	b.Picture("limits")
	b.Open(root + "/health")
	// The broken autoscaler's answer is 404, and may be the last one of each round.
	b.Await(`[...document.querySelectorAll("tr")].some((row) => row.cells[0].innerText === "custom.metrics.k8s.io" && row.cells[3].innerText.includes("ago"))`)
	if said := b.Said(); len(said) > 0 {
		t.Error(said)
	}
}

// followsAPushToAnAutoscaler goes the way of somebody who has pushed a metric: from the overview to its page, and by
// what is copied there to an autoscaler that the API server accepts.
func (c *cluster) followsAPushToAnAutoscaler(t *testing.T, b *browser.Browser, ns string, from netip.Addr) {
	t.Helper()
	for _, m := range []struct{ of, resource, name, wants string }{
		{"", "pods", "http_requests", "type: Pods"},
		{"external", "", "queue_depth", "type: External"},
		{"deployments.apps/web", "deployments.apps", "busy", "type: Object"},
	} {
		if m.of != "" {
			c.push(t, from, http.MethodPut, "/v1/namespaces/"+ns+"/"+m.of+"/"+m.name, "7.25", http.StatusOK)
		}
		b.Open("http://" + c.sluice.Console + "/overview?namespace=" + ns)
		b.Do(chromedp.Click(`//nav//a[text()="Metrics"]`))
		b.Await(`document.title.startsWith("Metrics") && [...document.querySelectorAll("tbody a")].some((a) => a.getAttribute("href").includes("name=` + m.name + `&namespace=` + ns + `"))`)
		b.Open("http://" + c.sluice.Console + "/metric?namespace=" + ns + "&of=" + m.resource + "&name=" + m.name)
		b.Await(`document.querySelector("#yaml") && document.querySelector("figure.drawn")`)
		b.Do(chromedp.Evaluate(`window.copied = ""; navigator.clipboard.writeText = async (text) => { window.copied = text; }`, nil), chromedp.Click(`[data-copy=yaml]`))
		b.Await(`window.copied !== ""`)
		copied := browser.Evaluate[string](b, "window.copied")
		if !strings.Contains(copied, m.wants) {
			t.Errorf("of %s, copied is\n%s", m.name, copied)
		}
		file := filepath.Join(t.TempDir(), "hpa.yaml")
		must(t, os.WriteFile(file, []byte(copied), 0o600))
		c.Kubectl(t, "apply", "--dry-run=server", "-f", file)
		raw := strings.Fields(strings.ReplaceAll(browser.Evaluate[string](b, `document.querySelector("#raw").textContent`), "'", ""))
		if text := c.Kubectl(t, raw[1:]...); !strings.Contains(text, "value") {
			t.Errorf("%q answers %s", raw, text)
		}
	}
}

const readSamples = "{apiGroups: [sluice.dev], resources: [samples], verbs: [get]}"

// mayRead gives rights in a namespace to the reader of the namespace "seen".
func mayRead(rules ...string) string {
	return controlplane.Role("reader", controlplane.Account("seen", "reader"), rules...)
}

// On an address that isn't loopback, a page needs a token and the right to its namespace; a page
// that is open ends with the right.
func TestTheConsoleAsksForTokens(t *testing.T) {
	t.Parallel()
	plane := controlplane.Shared(t)
	plane.Apply(t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: seen}\n")
	plane.Apply(t, "seen", controlplane.ServiceAccount("reader"), controlplane.ServiceAccount("server"),
		controlplane.ClusterRoleBinding("seen", "cluster-admin", controlplane.Account("seen", "server")), mayRead(readSamples))
	c := &cluster{ControlPlane: plane, sluice: server.InCluster(t, plane.ServiceAccountKubeconfig(t, "seen", "server"))}
	c.sluice.WithConsoleAt("0.0.0.0")
	c.sluice.Start()
	reader, foreign := c.tokenFor(t, "seen", "reader", "sluice", nil), c.tokenFor(t, "seen", "reader", "other", nil)
	_, port, _ := net.SplitHostPort(c.sluice.Console)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(token, method, path, form string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "https://127.0.0.1:"+port+path, strings.NewReader(form))
		must(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if token != "" {
			request.SetBasicAuth("anyone", token)
		}
		answer, err := client.Do(request)
		must(t, err)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	open := func(token, path string) *http.Response {
		t.Helper()
		return ask(token, http.MethodGet, path, "")
	}
	for _, one := range []struct {
		token, path string
		want        int
	}{
		{"", "/metrics?namespace=seen", 401}, {"forged", "/metrics?namespace=seen", 401}, {foreign, "/metrics?namespace=seen", 401},
		{reader, "/metrics?namespace=seen", 200}, {reader, "/metrics?namespace=default", 403}, {reader, "/metrics", 403}, {reader, "/health", 403},
	} {
		if got := open(one.token, one.path); got.StatusCode != one.want {
			t.Errorf("%s: %s, want %d", one.path, got.Status, one.want)
		}
	}

	c.deletesGroupsByRight(t, func(path, form string) (int, string) {
		method := http.MethodGet
		if form != "" {
			method = http.MethodPost
		}
		answer := ask(reader, method, path, form)
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	})
	stream := open(reader, "/live/metrics?namespace=seen")
	plane.Kubectl(t, "--namespace", "seen", "delete", "rolebinding", "reader")
	ended := make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if lines.Text() == "event: end" {
				ended <- nil
				return
			}
		}
		ended <- fmt.Errorf("the stream broke off")
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the stream goes on without the right")
	}
	c.readsNothingOfTheNext(t, func(ns string) int { return open(reader, "/metrics?namespace="+ns).StatusCode })
}

// deletesGroupsByRight has a reader of another namespace delete a group there: not before it has the right that
// a DELETE of HTTP push needs.
func (c *cluster) deletesGroupsByRight(t *testing.T, console func(path, form string) (int, string)) {
	ns := c.Namespace(t, "grouped")
	role := func(verbs string) {
		c.Apply(t, ns, mayRead("{apiGroups: [sluice.dev], resources: [samples], verbs: ["+verbs+"]}"))
	}
	role("get")
	c.push(t, addressOf(t, c.pod(t, ns, "batch", "default")), http.MethodPut, "/metrics/job/batch", "done 1\n", http.StatusOK)
	const button = ">Delete<span"
	within(t, func() error {
		if status, text := console("/groups?namespace="+ns, ""); status != http.StatusOK || !strings.Contains(text, ">Command<") || strings.Contains(text, button) {
			return fmt.Errorf("without the right to delete, the page is answered %d: %s", status, text)
		}
		return nil
	})
	form := "namespace=" + ns + "&group=/metrics/job/batch"
	if status, text := console("/groups/delete", form); status != http.StatusForbidden {
		t.Errorf("without the right, a deletion is answered %d: %s", status, text)
	}
	role("get, delete")
	within(t, func() error {
		if _, text := console("/groups?namespace="+ns, ""); !strings.Contains(text, button) {
			return fmt.Errorf("with the right to delete, the page has no button: %s", text)
		}
		return nil
	})
	if status, text := console("/groups/delete", form); status != http.StatusOK || !strings.Contains(text, "<h1>Deleted</h1>") {
		t.Errorf("with the right, a deletion is answered %d: %s", status, text)
	}
	if _, text := console("/groups?namespace="+ns, ""); !strings.Contains(text, "No groups") {
		t.Errorf("the group is there: %s", text)
	}
}

// readsNothingOfTheNext hands the name of a namespace over. The reader of the former one may read neither the next
// one's page of the console nor its metrics, though the rights in the former one are cached.
func (c *cluster) readsNothingOfTheNext(t *testing.T, page func(namespace string) (status int)) {
	ns, token := c.Namespace(t, "handed"), c.Token(t, "seen", "reader")
	c.Apply(t, ns, mayRead(readSamples, "{apiGroups: [external.metrics.k8s.io], resources: [depth], verbs: [list]}"))
	both := func(want int) error {
		t.Helper()
		metric, text := asks(t, c.sluice, token, external+"/namespaces/"+ns+"/depth")
		if shown := page(ns); shown != want || metric != want {
			return fmt.Errorf("the page is answered %d, the metric %d %s; want %d", shown, metric, text, want)
		}
		return nil
	}
	push := func(pod string) {
		t.Helper()
		from := addressOf(t, c.pod(t, ns, pod, "default"))
		c.push(t, from, http.MethodPut, "/v1/namespaces/"+ns+"/external/depth", "42", http.StatusOK)
	}
	push("former")
	within(t, func() error { return both(http.StatusOK) })
	c.deletePod(t, ns, "former")
	namespaces := c.Kubernetes.CoreV1().Namespaces()
	must(t, namespaces.Delete(t.Context(), ns, metav1.DeleteOptions{}))
	within(t, func() error {
		_, err := namespaces.Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		return err
	})
	push("next")
	must(t, both(http.StatusForbidden))
}
