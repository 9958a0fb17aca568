package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scrapes are scenarios of pods that announce endpoints, with the sentences of Kubernetes' proposal of 2015 that they follow. The
// parser of the annotation, and what it takes beside the proposal's, is tested in adapter/cluster.
var scrapes = []struct {
	name, sentence string
	run            func(*testing.T, *cluster)
}{
	{"ScalesOnAPage", "to make custom metrics available to horizontal pod autoscaler", scalesOnAPage},
	{"WalksThroughPull", "easy to use", walksThroughPull},
	{"ScrapesPrometheus", "to monitor third-party applications, Prometheus exporters run as side-cars may be used", scrapesPrometheus},
	{"TheProposalsExample", "will expose metrics with names qps and activeConnections from :8080/status and metric myMetric from :9090/metrics", theProposalsExample},
	{"FiveMetrics", "the number of metrics that can be exposed by each pod will be limited to the configurable value (default: 5)", fiveMetrics},
	{"TellsOfBadAnnouncements", "in case of error an event with appropriate message", tellsOfBadAnnouncements},
	{"BesidePushes", "support push metrics (e.g. in StatsD format), and metrics not associated with an individual pod", besidePushes},
	{"ScalesOnAnEngineThatPushes", "support push metrics (e.g. in StatsD format)", scalesOnAnEngine},
}

func TestScrape(t *testing.T) {
	t.Parallel()
	c := installWith(t, controlplane.New(t, controlplane.DefaultConfig()), "scrape.yaml")
	for _, one := range scrapes {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("the sentence: %s", one.sentence)
				}
			}()
			one.run(t, c)
		})
	}
}

// vllm is a page in the form of a vLLM server, at the address of a pod.
type vllm struct {
	waiting atomic.Int64
	server  atomic.Pointer[http.Server]
	page    string
	at      netip.AddrPort
	served  atomic.Int64 // Unix nanoseconds of the last page
}

var waitingValue = regexp.MustCompile(`(?m)^(vllm:num_requests_waiting\{.*\}) .*$`)

func newVLLM(t *testing.T, pod core.Pod) *vllm {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "receiver", "scrape", "testdata", "vllm.txt"))
	must(t, err)
	v := &vllm{page: string(page), at: netip.AddrPortFrom(addressOf(t, pod), 8000)}
	v.start(t)
	return v
}

func (v *vllm) start(t *testing.T) {
	t.Helper()
	v.server.Store(servePage(t, v.at, func(to http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(to, r)
			return
		}
		to.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		v.served.Store(time.Now().UnixNano())
		fmt.Fprint(to, waitingValue.ReplaceAllString(v.page, fmt.Sprintf("$1 %d.0", v.waiting.Load())))
	}))
}

// servePage serves at an address and a port of a pod until the test ends.
func servePage(t *testing.T, at netip.AddrPort, page http.HandlerFunc) *http.Server {
	t.Helper()
	listener, err := net.Listen("tcp", at.String())
	must(t, err)
	server := &http.Server{Handler: page}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func (v *vllm) stop() { _ = v.server.Load().Close() }

const waitingPath = "/pods/*/vllm:num_requests_waiting:max:10s"

// A pod announces its page, and an autoscaler scales on it. The page goes away: the value stands for 15 s,
// with its age, and then there is none; it is never 0. Nothing moves the autoscaler. With the pod, its value goes at once.
func scalesOnAPage(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "pages")
	c.Apply(t, ns, example(t, "hpa-vllm.yaml", ns))
	first := c.AwaitPods(t, ns, "app=vllm", 1)[0]
	page := newVLLM(t, first)
	page.waiting.Store(12)
	path := "/namespaces/" + ns + waitingPath
	c.wantValues(t, path, map[string]float64{first.Name: 12})
	c.wantReplicas(t, ns, "vllm", 3)
	pods := c.AwaitPods(t, ns, "app=vllm", 3)
	// Four at each of three pods is three pods' worth of five, with one that is unknown, too.
	const each = 4
	page.waiting.Store(each)
	c.wantValues(t, path, map[string]float64{first.Name: each})
	all := map[string]float64{}
	for _, pod := range pods {
		all[pod.Name] = each
		if pod.Name != first.Name {
			newVLLM(t, pod).waiting.Store(each)
		}
	}
	c.wantValues(t, path, all)

	page.stop()
	last := time.Unix(0, page.served.Load())
	e := &explained{cluster: c, ns: ns, kubeconfig: c.Kubeconfig}
	for there := true; there; time.Sleep(100 * time.Millisecond) {
		before := time.Now()
		got, err := c.values(t, path)
		must(t, err)
		var value float64
		value, there = got[first.Name]
		switch age := time.Since(last); {
		case there && value != each:
			t.Fatalf("%v after the last page, the value is %v, want %d", age, value, each)
		case !there && age < 13*time.Second: // the last page may have been cut off, and the one before have counted
			t.Fatalf("%v after the last page, there is no value", age)
		case there && before.Sub(last) > 60*time.Second:
			t.Fatalf("%v after the last page, there is a value", before.Sub(last))
		}
	}
	within(t, func() error {
		targets, err := c.targets(t, ns)
		if err != nil {
			return err
		}
		for _, one := range targets {
			if want := map[bool]string{true: "failing", false: "up"}[one.Pod == first.Name]; one.State != want {
				return fmt.Errorf("%+v, want %s", one, want)
			}
		}
		return nil
	})
	code, out, fault := e.explain(t, "hpa/vllm")
	if code == 0 || !strings.Contains(out, "cannot be scraped") || !strings.Contains(out, "connection refused") {
		t.Errorf("explain: exit code %d\n%s%s", code, out, fault)
	}
	c.steady(t, ns, "vllm", 3, 5*time.Second)
	page.start(t)
	c.wantValues(t, path, all)
	must(t, c.Kubernetes.CoreV1().Pods(ns).Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	within(t, func() error {
		got, err := c.values(t, path)
		if _, there := got[first.Name]; err == nil && there {
			err = errors.New("a deleted pod has a value")
		}
		return err
	})
}

var pullCommand = regexp.MustCompile("(?s)<!-- tested: (\\w+) -->\n\n```sh\n(.*?)\n```")

// The walk through docs/pull.md, to the letter.
func walksThroughPull(t *testing.T, c *cluster) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "pull.md"))
	must(t, err)
	c.Kubectl(t, "create", "namespace", "shop")
	c.Apply(t, "shop", podManifest("vllm-0", "default"))
	page := newVLLM(t, c.AwaitPods(t, "shop", "app=vllm-0", 1)[0])
	page.waiting.Store(12)
	want := map[string]string{
		"list": `^POD      ENDPOINT        NAMES                       STATE   LAST SUCCESS   ERROR\nvllm-0   :8000/metrics   vllm:num_requests_waiting   up      [01]s             -\n$`,
		"get":  `^OBJECT/LABELS   METRIC                              VALUE   WINDOW   AGE\npod/vllm-0      vllm:num_requests_waiting:max:10s   12      10s      -\n$`,
	}
	commands := pullCommand.FindAllStringSubmatch(string(text), -1)
	if len(commands) != len(want)+1 {
		t.Fatalf("docs/pull.md has the commands %q", commands)
	}
	for _, one := range commands {
		if strings.HasPrefix(one[2], "kubectl ") {
			c.Shell(t, one[2])
			continue
		}
		within(t, func() error {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", "sluice() { \"$SLUICE\" \"$@\"; }\n"+one[2])
			cmd.Env = append(os.Environ(), "SLUICE="+c.sluice.Binary(), "KUBECONFIG="+c.Kubeconfig)
			out, err := cmd.CombinedOutput()
			if !regexp.MustCompile(want[one[1]]).Match(out) {
				return fmt.Errorf("%s: %v\n%s", one[2], err, out)
			}
			return nil
		})
	}
}

type listedTarget struct {
	Pod, Endpoint, State, Result, Error, Agent string
	Names                                      []string
}

func (c *cluster) targets(t *testing.T, ns string) ([]listedTarget, error) {
	t.Helper()
	var list struct{ Items []listedTarget }
	out, err := c.TryKubectl(t, "get", "--raw", "/apis/inspect.sluice.dev/v1alpha1/namespaces/"+ns+"/targets")
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	return list.Items, err
}

// A pod whose announcement is wrong has one Event that says where.
func tellsOfBadAnnouncements(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "wrong")
	// The example of the proposal lacks a comma.
	c.Apply(t, ns, podManifest("wrong", "default"))
	if _, err := c.TryKubectl(t, "annotate", "pod", "-n", ns, "wrong",
		`metrics.alpha.kubernetes.io/custom-endpoints=[{"path": "/metrics", "port": "9090" "names": ["myMetric"]}]`); err != nil {
		t.Fatal(err)
	}
	within(t, func() error {
		out, err := c.TryKubectl(t, "get", "events", "-n", ns, "-o", `jsonpath={range .items[?(@.reason=="BadMetricsEndpoints")]}{.involvedObject.name} {.count} {.message}{"\n"}{end}`)
		want := "wrong 1 annotation metrics.alpha.kubernetes.io/custom-endpoints: is no JSON list of endpoints, at byte 38"
		if err == nil && (!strings.HasPrefix(out, want) || strings.Count(out, "\n") != 1) {
			err = fmt.Errorf("Events %q, want %s", out, want)
		}
		return err
	})
	targets, err := c.targets(t, ns)
	if err != nil || len(targets) != 1 || targets[0].State != "invalid" {
		t.Errorf("%+v, %v", targets, err)
	}
	if n := c.sluice.Metrics()["sluice_scrape_invalid_announcements_total"]; n < 1 {
		t.Errorf("%v invalid announcements are counted", n)
	}
	// It is taken without a restart once it is right.
	c.Kubectl(t, "annotate", "pod", "-n", ns, "--overwrite", "wrong",
		`metrics.alpha.kubernetes.io/custom-endpoints=[{"path": "/metrics", "port": "9090", "names": ["myMetric"]}]`)
	within(t, func() error {
		targets, err := c.targets(t, ns)
		if err == nil && (len(targets) != 1 || targets[0].State != "failing" || targets[0].Endpoint != ":9090/metrics") {
			err = fmt.Errorf("%+v", targets)
		}
		return err
	})
}

// A real exporter: Prometheus serves its own metrics, as text or OpenMetrics, compressed.
func scrapesPrometheus(t *testing.T, c *cluster) {
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("no prometheus in the PATH")
	}
	ns := c.Namespace(t, "exporter")
	c.Apply(t, ns, podManifest("exporter", "default"))
	pod := c.AwaitPods(t, ns, "app=exporter", 1)[0]
	folder := t.TempDir()
	config := filepath.Join(folder, "prometheus.yml")
	must(t, os.WriteFile(config, []byte("global: {}\n"), 0o600))
	at := netip.AddrPortFrom(addressOf(t, pod), 9090).String()
	prometheus := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+at)
	must(t, prometheus.Start())
	t.Cleanup(func() { _ = prometheus.Process.Kill(); _ = prometheus.Wait() })
	c.Kubectl(t, "annotate", "pod", "-n", ns, "exporter",
		`sluice.dev/endpoints=[{"port": 9090, "interval": "1s", "names": ["go_goroutines", "prometheus_http_requests_total", "prometheus_http_request_duration_seconds", "go_gc_duration_seconds"]}]`)
	metrics := "/namespaces/" + ns + "/pods/exporter/"
	within(t, func() error {
		for name, least := range map[string]float64{"go_goroutines": 5, "prometheus_http_requests_total:total": 1,
			"prometheus_http_request_duration_seconds:count:1m": 1, "go_gc_duration_seconds:p50": 0} {
			got, err := c.values(t, metrics+name)
			if err != nil {
				return err
			}
			if value, has := got["exporter"]; !has || value < least {
				return fmt.Errorf("%s is %v, want %v or more", name, got, least)
			}
		}
		return nil
	})
}
