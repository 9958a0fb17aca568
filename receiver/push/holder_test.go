package push

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	bodies "github.com/sluice-metrics/sluice/receiver/push/body"
)

// tenants know which pod has the only address.
type tenants struct {
	mu   sync.Mutex
	have *metric.Sender
}

func (s *tenants) Sender(netip.Addr) *metric.Sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have
}

// moveIn gives the address to a pod; empty: to nobody.
func (s *tenants) moveIn(pod string, key uint64) { s.moveInCreated(pod, key, time.Unix(0, 0)) }

// moveInCreated is moveIn for a pod that was created at a moment.
func (s *tenants) moveInCreated(pod string, key uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.have = nil; pod != "" {
		s.have = &metric.Sender{Key: key, Address: netip.MustParseAddr("127.0.0.1"), Known: true,
			Pod: &metric.Pod{Namespace: "shop", Name: pod, UID: "uid-" + pod, Created: at.Unix()}}
	}
}

func startTenants(t *testing.T) (*harness, *tenants) {
	t.Helper()
	s := &tenants{}
	s.moveIn("former", 1)
	return start(t, func(_ *Config, p *Parts) { p.Senders, p.Trust = s, trusting{} }), s
}

// halves sends a request, with something between its first part, of which the server has read the most, and the
// last byte. It returns the answer.
func (h *harness) halves(c net.Conn, request string, between func()) (status int, text string) {
	t := h.T
	t.Helper()
	last := len(request) - 1
	write(t, c, request[:last])
	for h.server.Reserved() == 0 {
		time.Sleep(time.Millisecond)
	}
	between()
	return h.whole(c, request[last:])
}

// whole sends a request, or what is left of it, and returns the answer.
func (h *harness) whole(c net.Conn, request string) (status int, text string) {
	t := h.T
	t.Helper()
	write(t, c, request)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(body)
}

// longRequest is a request whose body counts in the budget of bodies while it is read.
func longRequest(method, path, body string, headers ...string) string {
	body += strings.Repeat("\n", 4*bodies.FreeBytes)
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n%s", method, path, len(body),
		strings.Join(headers, ""), body)
}

// late are pushes of what must not reach the next pod, or the next namespace.
func late(headers ...string) map[string]string {
	return map[string]string{
		"lines": longRequest("POST", "/v1/statsd", "late:666|g\n", headers...),
		"group": longRequest("PUT", "/metrics/job/late", "late 666\n", headers...),
		"JSON": longRequest("POST", "/v1/samples",
			`{"namespace":"shop","name":"late","type":"gauge","value":666}`+"\n", headers...),
	}
}

// lacksLate checks that nothing of late is there.
func (h *harness) lacksLate() {
	h.Helper()
	for _, ns := range []string{"", "shop", "bank"} {
		if e := h.table.get(metric.Object{Namespace: ns}, "late"); e != nil {
			h.Errorf("in %q there is %+v", ns, e)
		}
	}
	if n := h.groups.Count(); n != 0 {
		h.Errorf("there are %d groups", n)
	}
}

// A connection is of one pod. Once another pod has its address, or nobody, what comes on it is not that one's, and
// that one's metrics are not read by it.
func TestConnectionsDoNotChangeHands(t *testing.T) {
	own, read := "PUT /v1/namespaces/shop/external/own HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1",
		"GET /v1/namespaces/shop/external/own HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, push := range late() {
		t.Run(name, func(t *testing.T) {
			h, s := startTenants(t)
			want := func(what string, want int) func(int, string) {
				return func(status int, text string) {
					t.Helper()
					if status != want {
						t.Errorf("%s: %d %s, want %d", what, status, text, want)
					}
				}
			}
			pushing, reading, silent := h.dial(), h.dial(), h.dial()
			want("the former pod", 200)(h.whole(pushing, own))
			s.moveIn("former", 2)
			want("the former pod, which has changed", 200)(h.whole(pushing, own))
			want("the former pod, reading", 200)(h.whole(reading, read))
			want("in flight", 503)(h.halves(h.dial(), push, func() { s.moveIn("next", 3) }))
			want("on a connection that was kept", 503)(h.whole(pushing, push))
			want("a read on one", 503)(h.whole(reading, read))
			want("the next pod", 200)(h.whole(h.dial(), own))
			want("the next pod on a connection on which nothing came", 200)(h.whole(silent, own))
			want("in flight, and the address is nobody's", 503)(h.halves(h.dial(), push, func() { s.moveIn("", 0) }))
			h.lacksLate()
		})
	}
}

// A connection that was opened before the pod of its address was created is not that pod's.
func TestConnectionsOfFormerHolders(t *testing.T) {
	pushes := late()
	delete(pushes, "group") // refused before its body, as nobody's
	for name, push := range pushes {
		h, s := startTenants(t)
		next := func(created time.Duration) func() {
			return func() { s.moveInCreated("next", 2, time.Now().Add(created)) }
		}
		s.moveIn("", 0)
		kept := h.dial()
		if status, text := h.halves(h.dial(), push, next(time.Hour)); status != 503 {
			t.Errorf("%s, in flight: %d %s", name, status, text)
		}
		if status, text := h.whole(kept, push); status != 503 {
			t.Errorf("%s, afterwards: %d %s", name, status, text)
		}
		h.lacksLate()
		next(-time.Hour)()
		if status, text := h.halves(h.dial(), push, func() {}); status != 200 {
			t.Errorf("%s, of the pod itself: %d %s", name, status, text)
		}
	}
}

// A push that began with a good token does not reach the namespace that has the name when it ends.
func TestPushesInFlightEndWithTheirNamespace(t *testing.T) {
	h, _ := startTown(t, func(_ *Config, p *Parts) { p.Listener = nil })
	for name, push := range late("Authorization: Bearer shops\r\n") {
		status, text := h.halves(h.dial(), push, func() { h.server.EndNamespace("shop", true) })
		if status != 503 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	h.lacksLate()
	h.wants(200, `"applied":1`, "PUT", "/v1/namespaces/shop/external/own", "1", asShop...)
}

// What the former holder of an address said of the types of its metrics is not true of the next one's.
func TestTypesOfTheFormerHolder(t *testing.T) {
	h, s := startTenants(t)
	g := gateway{h}
	send := func(body string) { g.writes(204, "", body, "Content-Type", firstMessage, "Content-Encoding", "snappy") }
	send(metadata1("depth"))
	h.client.CloseIdleConnections()
	s.moveIn("next", 2)
	send(remote1(remoteSeries{"depth", 0, 3}))
	if e := h.table.get(metric.Object{}, "depth", labelled); e == nil || e.kind != metric.Gauge {
		t.Errorf("%+v, want the gauge that it looks like", e)
	}
}
