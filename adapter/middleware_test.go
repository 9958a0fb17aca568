package adapter

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
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

// A client that requests a large answer and never reads it is cut off, and frees its place.
func TestClientsThatDoNotReadAreCutOff(t *testing.T) {
	s := new(countingSource)
	a := start(t, s, func(c *Config) { c.RequestTimeout = time.Second })
	known := testutil.CollectAndCount(a.metrics.requests)
	a.deaf(t, podsOf(maxReserved*2/5))
	eventually(t, "it was gathered", func() bool { return s.gathered.Load() == 1 || testutil.CollectAndCount(a.metrics.requests) > known })
	eventually(t, "its place is free", func() bool { return testutil.ToFloat64(a.metrics.inFlight) == 0 })
	if resp, _ := a.get(t, podsOf(1), "application/json"); resp.StatusCode != http.StatusOK {
		t.Errorf("%d afterwards", resp.StatusCode)
	}
}
