package replicas

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// A node dies: its kernel sends no FIN, and datagrams to it are lost until Services lead elsewhere.
// No rate moves but that of a series which both replicas receive. The replica on the node lives on, and
// after the silence the totals are exact.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	n := newNode(t)
	home, away := net.JoinHostPort(homeAddress, "6222"), net.JoinHostPort(nodeAddress, "6222")
	ca, peers := newAuthority(t), []string{home, away}
	m := mesh{
		server.New(t, meshFlags(ca, "sluice-0", home, peers)...),
		server.NewAt(t, nodeAddress, meshFlags(ca, "sluice-1", away, peers)...),
	}
	n.holds(m[1])
	m.start(t)
	l := startLoad(t, m)
	time.Sleep(settled)
	l.steady(t, "before", observe(t, 3*time.Second, 0, m...))

	n.silence(true)
	// Kubernetes marks the pods of a dead node after 40 to 50 s.
	time.AfterFunc(server.ShortOrLong(5*time.Second, 45*time.Second), func() { l.leave(m[1], m[0]) })
	silent := observe(t, server.ShortOrLong(20*time.Second, 5*time.Minute), 0, m[0])
	l.steady(t, "a node is silent", silent.of("jobs"))
	// Nobody can tell whether the dead replica's clients still push "shared", which the other one
	// receives too: the rate is without the datagrams that are lost.
	for metric, r := range silent.of("shared") {
		t.Logf("a node is silent: %s between %.1f and %.1f; %d failures", metric, r.low, r.high, r.failures)
		if r.failures > 0 || r.low < perSecond-l.margin(metric, perSecond) || r.high > l.rate()+l.margin(metric, l.rate()) {
			t.Errorf("a node is silent: %s is between %.1f and %.1f, want what is received at least; %s", metric, r.low, r.high, r.last)
		}
	}
	if got := m[0].Metrics()["sluice_replica_connections"]; got != 0 {
		t.Errorf("%v connections to a silent node", got)
	}

	n.silence(false)
	server.Within(t, func() string {
		for i, s := range m {
			if got := s.Metrics()[fmt.Sprintf(`sluice_replica_standing_still{origin="sluice-%d"}`, 1-i)]; got != 0 {
				return fmt.Sprintf("the node is back, and for replica %d the other one stands still", i)
			}
		}
		return ""
	})
	l.steady(t, "it is back", observe(t, 10*time.Second, 0, m...))
	l.end()
	time.Sleep(time.Second)
	want := (applied(m[0]) + applied(m[1])) / 2 // of each client "jobs" and "shared"
	t.Logf("%v of %d samples were sent to a silent node", float64(l.sent())-want, l.sent())
	wantTotals(t, m, map[string]float64{"jobs:total": want, "shared:total": want})
}
