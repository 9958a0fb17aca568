package route

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// standIn is another provider of external metrics, over TLS.
type standIn struct {
	*httptest.Server
	caFile string

	mu       sync.Mutex
	requests []*http.Request // of metrics, and of discovery
}

func newStandIn(t testing.TB, answer http.HandlerFunc) *standIn {
	t.Helper()
	s := &standIn{caFile: filepath.Join(t.TempDir(), "ca.crt")}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	s.trust(t, s.Server)
	return s
}

// trust writes the certificate of a server as the authority.
func (s *standIn) trust(t testing.TB, of *httptest.Server) {
	t.Helper()
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.Certificate().Raw})
	must(t, os.WriteFile(s.caFile, block, 0o600))
}

func (s *standIn) asked() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.requests...)
}

// spec routes what begins with "other" to the provider.
func (s *standIn) spec(change ...func(*Spec)) Spec {
	spec := Spec{Name: "other", URL: s.URL, CAFile: s.caFile, Metrics: []string{"other*"}}
	for _, c := range change {
		c(&spec)
	}
	return spec
}

// patient has time for everything; an answer that must not be waited for ends on its own.
func patient() Config {
	cfg := DefaultConfig(64, 1000)
	cfg.Timeout = 5 * time.Minute
	return cfg
}

func routerOf(t testing.TB, cfg Config, specs ...Spec) *Router {
	t.Helper()
	r, err := New(cfg, specs, &rest.Config{BearerToken: "sluices-token"}, slog.New(slog.DiscardHandler))
	must(t, err)
	return r
}

// find is the provider of a metric, which must be one.
func find(t testing.TB, r *Router, name string) *Provider {
	t.Helper()
	p := r.Find("shop", name, labels.Everything())
	if p == nil {
		t.Fatalf("%s is not routed", name)
	}
	return p
}

func ask(r *Router, t testing.TB, name string) error {
	t.Helper()
	_, written, err := find(t, r, name).Ask(context.Background(), Question{Namespace: "shop", Name: name})
	if err == nil {
		written()
	}
	return err
}

const oneValue = `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[` +
	`{"metricName":"other","metricLabels":{"queue":"mail"},"timestamp":"2026-03-14T12:00:00Z","window":60,"value":"1500m"}]}`

func answers(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
