package cluster

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// One of two replicas scrapes, and both answer. It is killed: the other one goes on from its totals. A wrong
// announcement has one Event.
func TestReplicasScrape(t *testing.T) {
	t.Parallel()
	plane, servers := replicasWithRights(t, "--scrape")
	var both []*cluster
	for _, one := range servers {
		one.Start()
		both = append(both, &cluster{ControlPlane: plane, sluice: one})
	}
	first, second := both[0], both[1]
	ns := first.Namespace(t, "scraped")
	address := addressOf(t, first.pod(t, ns, "one", "default"))
	second.awaitSender(t, ns, "one")

	var total, requests atomic.Int64
	total.Store(1_000_000)
	servePage(t, netip.AddrPortFrom(address, 8001), func(to http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		fmt.Fprintf(to, "# TYPE requests_total counter\nrequests_total %d\n", total.Load())
	})
	plane.Kubectl(t, "annotate", "pod", "-n", ns, "one", `sluice.dev/endpoints=[{"port": 8001, "names": "requests_total", "interval": "1s"}]`)

	wants := func(all []*cluster, question, want string) {
		t.Helper()
		within(t, func() error {
			for i, c := range all {
				status, text, err := c.ask(t, address, http.MethodGet, "/v1/namespaces/"+ns+"/pods/one/requests_total:"+question, "")
				if err != nil || status != http.StatusOK || !strings.Contains(text, want) {
					return fmt.Errorf("replica %d answers %d %s %v about %s, want %s", i, status, text, err, question, want)
				}
			}
			return nil
		})
	}
	wants(both, "total", `"value":1000000`)
	total.Add(500)
	wants(both, "total", `"value":1000500`)
	wants(both, "count:1m", `"value":500`)
	var scraping, idle []*cluster
	for _, c := range both {
		if c.sluice.Metrics()[`sluice_scrape_targets{state="up"}`] > 0 {
			scraping = append(scraping, c)
		} else {
			idle = append(idle, c)
		}
	}
	if len(scraping) != 1 {
		t.Fatalf("%d replicas scrape, want 1", len(scraping))
	}
	before, began := requests.Load(), time.Now()
	time.Sleep(5 * time.Second)
	if n, most := requests.Load()-before, int64(time.Since(began)/time.Second)+2; n > most {
		t.Errorf("%d requests in %v, want %d at most: one a second", n, time.Since(began), most)
	}
	plane.Apply(t, ns, podManifest("wrong", "default"))
	plane.Kubectl(t, "annotate", "pod", "-n", ns, "wrong", `sluice.dev/endpoints=[{"port": 0, "names": "a"}]`)
	within(t, func() error {
		out, err := plane.TryKubectl(t, "get", "events", "-n", ns, "-o", `jsonpath={range .items[?(@.reason=="BadMetricsEndpoints")]}{.involvedObject.name} {.count} {.message}{"\n"}{end}`)
		if err == nil && (!strings.HasPrefix(out, `wrong 1 annotation sluice.dev/endpoints: endpoint 1: port is "0"`) || strings.Count(out, "\n") != 1) {
			err = fmt.Errorf("Events %q", out)
		}
		return err
	})

	scraping[0].sluice.Kill()
	total.Add(40)
	wants(idle, "total", `"value":1000540`)
	total.Add(2)
	wants(idle, "total", `"value":1000542`)
	wants(idle, "count:1m", `"value":542`)
}
