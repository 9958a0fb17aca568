package cluster

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The agent of a pod's node scrapes it. Without one the server does: first, after a kill, and after a clean end. Over all of that
// the gauge always has a value, and each growth of the counter counts once.
func TestAgentsScrape(t *testing.T) {
	t.Parallel()
	c := newAgents(t)
	c.sluice.Stop()
	c.sluice.Add("--scrape", "--windows", "10s,1m,30m")
	c.sluice.Start()
	ns := c.Namespace(t, "scraped")
	pod := c.pod(t, ns, "one", "default")
	const baseline = 1_000_000
	var total atomic.Int64
	total.Store(baseline)
	page := servePage(t, netip.AddrPortFrom(addressOf(t, pod), 8002), func(to http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(to, "# TYPE requests_total counter\nrequests_total %d\n# TYPE queue gauge\nqueue 7\n", total.Load())
	})
	c.Kubectl(t, "annotate", "pod", "-n", ns, "one", `sluice.dev/endpoints=[{"port": 8002, "names": "requests_total, queue", "interval": "1s"}]`)

	path := "/namespaces/" + ns + "/pods/*/"
	// scrapedBy grows the counter, and waits until that is read and scraped by who should.
	scrapedBy := func(node string) {
		t.Helper()
		grown := float64(total.Add(17))
		within(t, func() error {
			targets, err := c.targets(t, ns)
			if err == nil && (len(targets) != 1 || targets[0].State != "up" || targets[0].Agent != node) {
				err = fmt.Errorf("targets %+v, want one of %q", targets, node)
			}
			return err
		})
		c.wantValues(t, path+"requests_total:total", map[string]float64{"one": grown})
		c.wantValues(t, path+"requests_total:count:30m", map[string]float64{"one": grown - baseline})
	}
	c.wantValues(t, path+"requests_total:total", map[string]float64{"one": baseline})
	scrapedBy("")
	stop := make(chan struct{})
	var watch sync.WaitGroup
	stops := sync.OnceFunc(func() { close(stop); watch.Wait() })
	defer stops()
	watch.Go(func() {
		for reads := 0; ; reads++ {
			got, err := c.values(t, path+"queue:last")
			if err != nil || got["one"] != 7 {
				t.Errorf("read %d: the queue is %v, %v; want 7", reads, got, err)
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	c.starts(t, c.far)
	c.starts(t, c.near)
	scrapedBy("loopback")
	c.near.Kill()
	scrapedBy("")
	c.starts(t, c.near)
	scrapedBy("loopback")
	c.near.Stop()
	scrapedBy("")
	c.starts(t, c.near)
	scrapedBy("loopback")
	stops()
	out := c.Kubectl(t, "get", "targets.inspect.sluice.dev", "-n", ns, "-o", "wide")
	if !strings.Contains(out, "AGENT") || !strings.Contains(out, " loopback") {
		t.Errorf("kubectl shows\n%s", out)
	}
	c.holdsTargets(t, 1)
	_ = page.Close()
	within(t, func() error {
		targets, err := c.targets(t, ns)
		if err == nil && (len(targets) != 1 || targets[0].State != "failing" || targets[0].Agent != "loopback" || !strings.Contains(targets[0].Error, "connection refused")) {
			err = fmt.Errorf("targets %+v, want one that refuses the agent", targets)
		}
		return err
	})
	must(t, c.Kubernetes.CoreV1().Pods(ns).Delete(t.Context(), "one", metav1.DeleteOptions{}))
	c.holdsTargets(t, 0)
}

// holdsTargets waits until the agent of the pods' node has so many targets, and that of another node has none.
func (c *agents) holdsTargets(t *testing.T, n float64) {
	t.Helper()
	within(t, func() error {
		near, err := c.near.Metrics()
		if err != nil {
			return err
		}
		far, err := c.far.Metrics()
		if got, other := near["sluice_agent_scrape_targets"], far["sluice_agent_scrape_targets"]; err == nil && (got != n || other != 0) {
			err = fmt.Errorf("the agents have %v and %v targets, want %v and none", got, other, n)
		}
		return err
	})
}
