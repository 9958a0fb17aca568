package adapter

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/klog/v2"
)

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A client's fault is no error of ours: it is told the parameter, counted, and not logged.
func TestMalformedSelectorsAreTheClients(t *testing.T) {
	a := start(t, shop())
	log := new(lines)
	routeKlog(slog.New(slog.NewTextHandler(log, nil)))
	defer routeKlog(slog.New(slog.DiscardHandler))
	for query, message := range map[string]string{
		"labelSelector=queue%3D%3D%3D":        `labelSelector "queue===": unable to parse`,
		"fieldSelector=a":                     `fieldSelector "a": invalid selector`,
		"watch=true&labelSelector=%3D%3D":     `labelSelector "==": `,
		"labelSelector=a&labelSelector=a%2F/": `labelSelector "a//": `,
		// Dropped silently, these would be answered with everything.
		"labelSelector=queue%3Deu%zz":     `query "labelSelector=queue%3Deu%zz": invalid URL escape`,
		"labelSelector=queue%3Deu;":       `query "labelSelector=queue%3Deu;": invalid semicolon separator`,
		"labelSelector=%00queue%3Dnope":   `labelSelector "\x00queue=nope": no part of a query has control characters`,
		"labelSelector=queue%3Dno%ffpe":   `labelSelector "queue=no\xffpe": no part`,
		"metricLabelSelector=%00x%3Dnope": `metricLabelSelector "\x00x=nope": no part`,
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

// What is wrong with a large selector is said without all of it.
func TestComplaintsAreShort(t *testing.T) {
	a := start(t, shop())
	for _, parameter := range []string{"labelSelector", "fieldSelector", "metricLabelSelector"} {
		resp, body := a.get(t, customRoot+"v1beta2/namespaces/shop/pods/*/http_requests?"+parameter+"="+strings.Repeat("x", 100_000), "application/json")
		if resp.StatusCode != http.StatusBadRequest || len(body) > 2000 {
			t.Errorf("%s: %d with %d bytes", parameter, resp.StatusCode, len(body))
		}
	}
}
