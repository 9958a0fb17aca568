package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// Beside replicas the agent of a pod's node scrapes it, whichever replica it reports to: over a kill of that replica, of the agent, and the
// clean ends of both. A pod of a node without an agent is scraped by one replica. Each growth counts once, at both replicas, and a gauge
// has its value all the time.
func TestAgentsOfReplicasScrape(t *testing.T) {
	t.Parallel()
	plane, both := replicasWithRights(t, "--scrape", "--windows", "10s,1m,30m")
	c := &agents{cluster: &cluster{ControlPlane: plane, sluice: both[0]}, authorities: hearAgents(t, both...), others: both[1:]}
	c.Apply(t, "sluice", controlplane.ServiceAccount("sluice-agent"), usageReader)
	token := plane.Token(t, "sluice", "reader")
	for _, one := range both {
		one.Start()
	}
	c.near = c.agentOn(t, "loopback", "sluice-agent")
	ns := c.Namespace(t, "scraped")
	address := addressOf(t, c.pod(t, ns, "one", "default"))
	const baseline = 1_000_000
	var total atomic.Int64
	total.Store(baseline)
	servePage(t, netip.AddrPortFrom(address, 8003), func(to http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(to, "# TYPE requests_total counter\nrequests_total %d\n# TYPE queue gauge\nqueue 7\n", total.Load())
	})
	c.Kubectl(t, "annotate", "pod", "-n", ns, "one", `sluice.dev/endpoints=[{"port": 8003, "names": "requests_total, queue", "interval": "1s"}]`)

	up := map[*server.Server]bool{both[0]: true, both[1]: true}
	read := func(s *server.Server, metric string) (string, error) {
		status, body, err := (&cluster{ControlPlane: plane, sluice: s}).ask(t, address, http.MethodGet, "/v1/namespaces/"+ns+"/pods/one/"+metric, "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		return body, err
	}
	counted := true
	// wants grows the counter, and waits until each replica that runs has counted that.
	wants := func(what string) {
		t.Helper()
		grown := total.Add(17)
		within(t, func() error {
			for i, s := range both {
				if !up[s] {
					continue
				}
				for metric, want := range map[string]int64{"requests_total:total": grown, "requests_total:count:30m": grown - baseline} {
					if !counted && want != grown {
						continue
					}
					if body, err := read(s, metric); err != nil || !containsValue(body, want) {
						return fmt.Errorf("%s: replica %d says %s of %s (%v), want %d", what, i, body, metric, err, want)
					}
				}
			}
			return nil
		})
	}
	scrapedBy := func(node string) {
		t.Helper()
		within(t, func() error { // each replica knows
			for i, s := range both {
				if !up[s] {
					continue
				}
				var list struct{ Items []listedTarget }
				status, body := asks(t, s, token, "/apis/inspect.sluice.dev/v1alpha1/namespaces/"+ns+"/targets")
				if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
					return fmt.Errorf("%d %s", status, body)
				}
				if len(list.Items) != 1 || list.Items[0].State != "up" || list.Items[0].Agent != node {
					return fmt.Errorf("replica %d lists the targets %+v, want one that is up, of %q", i, list.Items, node)
				}
				if status, body = asks(t, s, token, "/apis/inspect.sluice.dev/v1alpha1/agents"); node != "" && (status != http.StatusOK ||
					!strings.Contains(body, `"node":"loopback","state":"connected"`) || strings.Contains(body, `"elsewhere"`)) {
					return fmt.Errorf("replica %d lists the agents %s", i, body)
				}
			}
			return nil
		})
		wants("scraped by " + node)
	}
	within(t, func() error {
		for _, s := range both {
			if body, err := read(s, "requests_total:total"); err != nil || !containsValue(body, baseline) {
				return fmt.Errorf("%s %v", body, err)
			}
		}
		return nil
	})
	scrapedBy("")
	c.starts(t, c.near)
	scrapedBy("loopback")
	for _, end := range []func(*server.Agent){(*server.Agent).Kill, (*server.Agent).Stop} {
		end(c.near)
		scrapedBy("")
		c.starts(t, c.near)
		scrapedBy("loopback")
	}
	counted = false // windows lose what a replica counted that is away for longer than the series live: 15 s
	for _, end := range []func(*server.Server){(*server.Server).Kill, (*server.Server).Stop} {
		s := both[0]
		if c.near.Hearer() == "sluice-1" {
			s = both[1]
		}
		up[s] = false
		end(s)
		wants("the agent's replica has ended")
		scrapedBy("loopback")
		s.Start()
		within(t, func() error { _, err := read(s, "requests_total:total"); return err })
		up[s] = true
		wants("the replica is back")
	}
	stop := time.Now().Add(3 * time.Second)
	for time.Now().Before(stop) {
		for i, s := range both {
			if body, err := read(s, "queue:last"); err != nil || !containsValue(body, 7) {
				t.Fatalf("replica %d says %s of the queue (%v), want 7", i, body, err)
			}
		}
	}
}

// containsValue reports whether an answer of /v1 has a value.
func containsValue(body string, want int64) bool {
	return strings.Contains(body, fmt.Sprintf(`"value":%d,`, want)) || strings.Contains(body, fmt.Sprintf(`"value":%d}`, want))
}
