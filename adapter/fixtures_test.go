package adapter

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// api is a running server with a client.
type api struct {
	*Server
	url    string
	client *http.Client
	stop   func() // ends the server, and does not wait
}

// start runs a server on a free port until the test ends. Options change its configuration.
func start(t testing.TB, source Source, options ...func(*Config)) *api {
	t.Helper()
	cfg := configured(options)
	server, err := New(cfg, Parts{Source: source, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	a := running(t, server)
	a.waitReady(t)
	return a
}

// configured is a configuration on a free port. A slow machine has an hour for each answer.
func configured(options []func(*Config)) Config {
	cfg := DefaultConfig()
	cfg.Address, cfg.RequestTimeout = "127.0.0.1:0", time.Hour
	for _, change := range options {
		change(&cfg)
	}
	return cfg
}

// running runs a server until the test ends, ready or not.
func running(t testing.TB, server *Server) *api {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &api{Server: server, stop: cancel, url: "https://" + server.Addr().String(), client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}}
}

func (a *api) waitReady(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if resp, err := a.client.Get(a.url + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(10 * time.Millisecond) // real sockets allow no virtual time
	}
	t.Fatal("the server did not become ready")
}

// get sends a request with an Accept header and returns status, headers and body.
func (a *api) get(t *testing.T, path, accept string) (*http.Response, []byte) {
	t.Helper()
	return a.do(t, http.MethodGet, path, accept)
}

func (a *api) do(t *testing.T, method, path, accept string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(method, a.url+path, nil)
	must(t, err)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := a.client.Do(req)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	must(t, err)
	return resp, body
}

// status decodes an answer that has to be a Status.
func status(t *testing.T, body []byte) metav1.Status {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err != nil || s.Kind != "Status" {
		t.Fatalf("not a Status: %v\n%s", err, body)
	}
	return s
}

// golden compares with testdata/name, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs:\n--- want\n%s\n--- got\n%s", path, want, got)
	}
}

// prepared is a server on a free port with the given access.
func prepared(t testing.TB, parts Parts, who access, options ...func(*Config)) *Server {
	t.Helper()
	cfg := configured(options)
	if parts.Source == nil {
		parts.Source = shop()
	}
	if parts.Logger == nil {
		parts.Logger = slog.New(slog.DiscardHandler)
	}
	routeKlog(parts.Logger)
	server, err := prepare(cfg, parts, who)
	must(t, err)
	return server
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to that: %s", what)
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
