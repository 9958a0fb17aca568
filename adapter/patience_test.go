package adapter

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/metric"
)

// Clients that ask for a large answer and never read it do not keep others out for longer than they may take.
func TestClientsThatDoNotReadAreCutOff(t *testing.T) {
	m := new(memory)
	for i := range 20_000 {
		m.put(held{object: metric.Object{Namespace: "shop"}, name: "many", kind: metric.Gauge, value: metric.Int(1), at: noon,
			labels: metric.NewLabels([]metric.Label{{Key: "k", Value: fmt.Sprint(i)}, {Key: "long", Value: strings.Repeat("x", 1500)}})})
	}
	m.put(held{object: metric.Object{Namespace: "shop"}, name: "one", kind: metric.Gauge, value: metric.Int(1), at: noon})
	a := start(t, m, func(c *Config) { c.MaxInFlight, c.RequestTimeout = 2, 2*time.Second })
	for range 2 {
		tcp, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		// What the sockets' buffers take must be far less than the answer.
		if err := tcp.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true})
		fmt.Fprintf(conn, "GET %snamespaces/shop/many HTTP/1.1\r\nHost: a\r\n\r\n", externalRoot)
	}
	eventually(t, "both are in flight", func() bool { return testutil.ToFloat64(a.metrics.inFlight) == 2 })
	one := externalRoot + "namespaces/shop/one"
	if resp, _ := a.get(t, one, "application/json"); resp.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("%d while the server is full: the test shows nothing", resp.StatusCode)
	}
	eventually(t, "there is room again", func() bool {
		resp, _ := a.get(t, one, "application/json")
		return resp.StatusCode == http.StatusOK
	})
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to that: %s", what)
		}
	}
}
