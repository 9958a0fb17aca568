package adapter

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/ratelog/logtest"
	"k8s.io/klog/v2"
)

// A malformed query is the client's error: the answer names the parameter, and the error is counted
// but not logged.
func TestMalformedSelectorsAreTheClients(t *testing.T) {
	a := start(t, shop())
	log := new(logtest.Buffer)
	routeKlog(slog.New(slog.NewTextHandler(log, nil)))
	defer routeKlog(slog.New(slog.DiscardHandler))
	for query, message := range map[string]string{
		"labelSelector=queue%3D%3D%3D":        `labelSelector "queue===": unable to parse`,
		"fieldSelector=a":                     `fieldSelector "a": invalid selector`,
		"watch=true&labelSelector=%3D%3D":     `labelSelector "==": `,
		"labelSelector=a&labelSelector=a%2F/": `labelSelector "a//": `,
		// Without the check, the library would ignore these and answer with everything.
		"labelSelector=queue%3Deu%zz":     `query "labelSelector=queue%3Deu%zz": invalid URL escape`,
		"labelSelector=queue%3Deu;":       `query "labelSelector=queue%3Deu;": invalid semicolon separator`,
		"labelSelector=%00queue%3Dnope":   `labelSelector "\x00queue=nope": must not contain control characters`,
		"labelSelector=queue%3Dno%ffpe":   `labelSelector "queue=no\xffpe": must not contain`,
		"metricLabelSelector=%00x%3Dnope": `metricLabelSelector "\x00x=nope": must not contain`,
	} {
		for _, path := range []string{externalRoot + "namespaces/shop/orders_waiting", customRoot + "v1beta2/namespaces/shop/pods/*/http_requests"} {
			resp, body := a.get(t, path+"?"+query, "application/json")
			if s := status(t, body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(s.Message, message) {
				t.Errorf("%s: %d %q, want %q", query, resp.StatusCode, s.Message, message)
			}
		}
	}
	if got := testutil.ToFloat64(a.metrics.requests.WithLabelValues("list", "external.metrics.k8s.io", "400")); got != 9 {
		t.Errorf("%v requests counted, want 9", got)
	}
	klog.Flush()
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("%s", log)
	}
}

// The message about a large selector quotes only part of it.
func TestLongSelectorsAreQuotedInPart(t *testing.T) {
	a := start(t, shop())
	for _, parameter := range []string{"labelSelector", "fieldSelector", "metricLabelSelector"} {
		resp, body := a.get(t, customRoot+"v1beta2/namespaces/shop/pods/*/http_requests?"+parameter+"="+strings.Repeat("x", 100_000), "application/json")
		if resp.StatusCode != http.StatusBadRequest || len(body) > 2000 {
			t.Errorf("%s: %d with %d bytes", parameter, resp.StatusCode, len(body))
		}
	}
}

// Clients that request a large answer and never read it are cut off, and free their places.
func TestClientsThatDoNotReadAreCutOff(t *testing.T) {
	m := new(memory)
	for i := range 20_000 {
		m.put(held{object: metric.Object{Namespace: "shop"}, name: "many", kind: metric.Gauge, value: metric.Int(1), at: noon,
			labels: metric.NewLabels([]metric.Label{{Key: "k", Value: fmt.Sprint(i)}, {Key: "long", Value: strings.Repeat("x", 1500)}})})
	}
	m.put(held{object: metric.Object{Namespace: "shop"}, name: "one", kind: metric.Gauge, value: metric.Int(1), at: noon})
	for timeout := 2 * time.Second; !clientsAreCutOff(t, m, timeout); timeout *= 3 {
		if timeout > time.Minute {
			t.Fatal("the server is never full: the test shows nothing")
		}
	}
}

// clientsAreCutOff is one run with a RequestTimeout. It returns false if clients may have been cut off
// before the server was asked: the machine was too slow.
func clientsAreCutOff(t *testing.T, m *memory, timeout time.Duration) bool {
	a := start(t, m, func(c *Config) { c.MaxInFlight, c.RequestTimeout = 2, timeout })
	began := time.Now()
	for range 2 {
		tcp, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		// The sockets' buffers must hold far less than the answer.
		if err := tcp.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true})
		fmt.Fprintf(conn, "GET %snamespaces/shop/many HTTP/1.1\r\nHost: a\r\n\r\n", externalRoot)
	}
	eventually(t, "both are in flight", func() bool {
		return testutil.ToFloat64(a.metrics.inFlight) == 2 || time.Since(began) > timeout
	})
	one := externalRoot + "namespaces/shop/one"
	if resp, _ := a.get(t, one, "application/json"); resp.StatusCode != http.StatusTooManyRequests {
		if time.Since(began) > timeout {
			return false
		}
		t.Fatalf("%d while the server is full: the test shows nothing", resp.StatusCode)
	}
	eventually(t, "there is room again", func() bool {
		resp, _ := a.get(t, one, "application/json")
		return resp.StatusCode == http.StatusOK
	})
	return true
}
