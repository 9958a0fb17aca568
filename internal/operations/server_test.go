package operations

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// serve runs a server on loopback until the test ends and returns its base address.
func serve(t *testing.T, checks ...Check) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_test", Help: "A gauge."})
	gauge.Set(42)
	registry.MustRegister(gauge)

	return "http://" + running(t, checks, registry, io.Discard).Addr().String()
}

// run is a server that runs until the test ends, or until stop is called.
type run struct {
	*Server
	stop func()
}

func running(t *testing.T, checks []Check, gather prometheus.Gatherer, said io.Writer) *Server {
	t.Helper()
	return runningAt(t, "127.0.0.1:0", checks, gather, said).Server
}

func runningAt(t *testing.T, address string, checks []Check, gather prometheus.Gatherer, said io.Writer) run {
	t.Helper()
	server, err := Listen(Config{Address: address}, checks, gather, slog.New(slog.NewTextHandler(said, nil)))
	must(t, err)
	return run{server, serving(t, server)}
}

// serving runs a server until the test ends, or until stop is called.
func serving(t *testing.T, server *Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func get(t *testing.T, url, accept string) (int, string) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodGet, url, nil)
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(body)
}

func TestPaths(t *testing.T) {
	base := serve(t)
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/livez":   {200, "ok\n"},
		"/readyz":  {200, "ready\n"},
		"/metrics": {200, "sluice_test 42"},
		"/":        {200, "/metrics   Sluice's own metrics"},
		"/debug":   {404, ""},
	} {
		if status, body := get(t, base+path, ""); status != want.status || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %q, want %d with %q", path, status, body, want.status, want.body)
		}
	}
}

// On loopback, a web page could reach the port by DNS rebinding.
func TestForeignHostsAreRejected(t *testing.T) {
	base := serve(t)
	for host, want := range map[string]int{"localhost:8080": 200, "127.0.0.1": 200, "[::1]:8080": 200, "evil.example": 403, "localhost.evil.example": 403} {
		req, _ := http.NewRequest(http.MethodGet, base+"/metrics", nil)
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", host, resp.Status, want)
		}
	}
}

// Headers are bounded on every path, also where a request of anybody is answered.
func TestOversizedHeadersAreRejected(t *testing.T) {
	req, _ := http.NewRequest(http.MethodGet, serve(t)+"/", nil)
	for _, token := range []struct{ bytes, want int }{{8 << 10, http.StatusOK}, {64 << 10, http.StatusRequestHeaderFieldsTooLarge}} {
		req.Header.Set("Authorization", "Bearer "+strings.Repeat("x", token.bytes))
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != token.want {
			t.Errorf("a token of %d bytes: %s, want %d", token.bytes, resp.Status, token.want)
		}
	}
}

func TestReadyFollowsItsChecks(t *testing.T) {
	var loaded atomic.Bool
	base := serve(t,
		Check{Name: "store", Impaired: func() bool { return true }, State: func() (bool, string) {
			if loaded.Load() {
				return true, "not persisting: disk full"
			}
			return false, "restoring block 3 of 12"
		}},
		Check{Name: "listeners", State: func() (bool, string) { return true, "" }})

	status, body := get(t, base+"/readyz", "")
	if want := "[-]store: restoring block 3 of 12\n[+]listeners\nnot ready\n"; status != 503 || body != want {
		t.Errorf("before: %d %q, want 503 %q", status, body, want)
	}
	if _, body := get(t, base+"/readyz", "application/json"); strings.Contains(body, "impaired") {
		t.Errorf("before: %s; a store that isn't ready is not impaired as well", body)
	}
	loaded.Store(true)
	status, body = get(t, base+"/readyz", "application/json")
	var got readiness
	must(t, json.Unmarshal([]byte(body), &got))
	if status != 200 || !got.Ready || got.Checks[0].Detail != "not persisting: disk full" || !got.Checks[0].Impaired || got.Checks[1].Impaired {
		t.Errorf("after: %d %s: want 200, ready, the store's detail kept, and the store impaired", status, body)
	}
	if _, body := get(t, base+"/readyz", ""); body != "[!]store: not persisting: disk full\n[+]listeners\nready\n" {
		t.Errorf("a store that doesn't persist reads %q", body)
	}
}

func TestPortInUseIsSaid(t *testing.T) {
	base := serve(t)
	taken := strings.TrimPrefix(base, "http://")
	_, err := Listen(Config{Address: taken}, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), taken) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error %v: want one that names %s and says in use", err, taken)
	}
}

func TestConfigNamesItsFault(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{Address: "8080"}).Validate(); err == nil || !strings.HasPrefix(err.Error(), `Address is "8080"; must be `) {
		t.Errorf("error %v: want one that starts with Address", err)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// net/http answers "OPTIONS *" by itself otherwise, beside all limits.
func TestOptionsOfTheServerAreNoExemption(t *testing.T) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(serve(t), "http://"))
	must(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	if resp.StatusCode == http.StatusOK {
		t.Errorf("%s", resp.Status)
	}
}
