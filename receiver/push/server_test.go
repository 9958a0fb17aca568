package push

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

func TestConfig(t *testing.T) {
	must(t, DefaultConfig().Validate())
	err := Config{Config: httpserver.Config{Address: "nowhere"}}.Validate()
	for _, field := range []string{
		"Address", "MaxBodyBytes", "MaxHeaderBytes", "MaxLineBytes", "MaxLabels", "MaxLabelBytes",
		"MaxConnections", "ReadTimeout", "WriteTimeout", "IdleTimeout", "SyncTimeout", "ShutdownTimeout",
	} {
		if !strings.Contains(fmt.Sprint(err), field+" ") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	for _, set := range []func(*Config){
		func(c *Config) { c.Address = "localhost:http" }, func(c *Config) { c.Address = ":70000" },
		func(c *Config) { c.MaxBufferedBytes = int64(c.MaxBodyBytes) }, func(c *Config) { c.MaxConnsPerIP = -1 },
		func(c *Config) { c.MaxDecompressedBytes = -1 }, func(c *Config) { c.MaxDecompressedBytes = 60 << 20 },
	} {
		c := DefaultConfig()
		set(&c)
		if c.Validate() == nil {
			t.Errorf("%+v is not valid", c)
		}
		if _, err := New(c, Parts{}); err == nil {
			t.Error("New takes it")
		}
	}
}

func TestPortInUse(t *testing.T) {
	h := start(t)
	cfg := DefaultConfig()
	cfg.Address = h.server.Addr().String()
	_, err := New(cfg, Parts{Ledger: ledger.New(), Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), cfg.Address) {
		t.Error(err)
	}
}

// A request that is under way when the server is told to stop is answered; new connections are not.
func TestShutdownLetsRequestsFinish(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h := start(t, inMemory, func(c *Config, _ *Parts) { c.ShutdownTimeout, c.SyncTimeout = time.Hour, time.Hour })
		h.disk.wait = make(chan struct{})
		silent, idle := h.dial(), h.dial() // neither holds the server up
		write(t, idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		h.response(bufio.NewReader(idle))
		busy := h.dial()
		write(t, busy, "PUT /v1/external/m?sync=true HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n5")
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { h.stop(); close(stopped) }()
		time.Sleep(time.Second) // less than ReadTimeout, which would end silent
		if _, err := h.connect(); err == nil {
			t.Error("a server that stops accepts a connection")
		}
		select {
		case <-stopped:
			t.Fatal("Run returned with a request in flight")
		default:
		}
		close(h.disk.wait)
		if res, answer := h.response(bufio.NewReader(busy)); res.StatusCode != 200 || !res.Close {
			t.Error(res.StatusCode, answer, res.Close)
		}
		time.Sleep(time.Second)
		select {
		case <-stopped:
		default:
			t.Fatal("Run waits for connections without a request")
		}
		if _, err := io.ReadAll(silent); err != nil {
			t.Error(err)
		}
		if strings.Contains(h.logs.String(), "aborted") {
			t.Error("nothing was aborted, but the log says so:", h.logs)
		}
	})
}

func TestShutdownIsBounded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h := start(t, inMemory, func(c *Config, _ *Parts) { c.SyncTimeout = time.Hour })
		h.disk.wait = make(chan struct{}) // never closed: Sync ends with its context
		c := h.dial()
		write(t, c, "PUT /v1/external/m?sync=true HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n5")
		synctest.Wait()
		begin := time.Now()
		h.stop()
		if took := time.Since(begin) - DefaultConfig().ShutdownTimeout; took < 0 || took > time.Second {
			t.Errorf("Run took %v longer than it may", took)
		}
		if n := h.server.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		if !strings.Contains(h.logs.String(), "aborted") {
			t.Error("the log does not say so:", h.logs)
		}
	})
}

// waitFor waits until something is so.
func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to that")
		}
	}
}

func TestRunEndsBeforeItBegan(t *testing.T) {
	h := start(t)
	h.stop()
	if _, err := net.Dial("tcp", h.server.Addr().String()); err == nil {
		t.Error("the socket is open")
	}
	cfg := DefaultConfig()
	cfg.Address = "127.0.0.1:0"
	s, err := New(cfg, Parts{NewApplier: h.table.newApplier, Ledger: ledger.New(), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, s.Run(ended))
}

// Many clients at once: nothing is lost, and the Appliers stay few.
func TestManyClients(t *testing.T) {
	h := start(t)
	const clients, each = 32, 50
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for range each {
				for _, path := range []string{"/v1/external/hits", "/v1/samples"} {
					body := "1"
					if path == "/v1/samples" {
						body = `{"name":"hits","type":"counter","value":1,"object":"external"}`
					}
					res, err := client.Post(h.url+path, "", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if res.StatusCode != 200 {
						t.Error(res.Status)
					}
				}
			}
		})
	}
	wg.Wait()
	if got := h.table.get(global, "hits").whole; got != 2*clients*each {
		t.Errorf("%d, want %d", got, 2*clients*each)
	}
	if n := int(h.table.fresh.Load() - h.table.closed.Load()); n > max(16, 4*runtime.GOMAXPROCS(0)) {
		t.Errorf("%d Appliers are left, of which %d can be parked", n, max(16, 4*runtime.GOMAXPROCS(0)))
	}
}

func TestMetrics(t *testing.T) {
	h := start(t)
	registry := prometheus.NewPedanticRegistry()
	must(t, h.server.Register(registry))
	h.do("PUT", "/v1/external/m", "1")
	h.do("PUT", "/v1/external/m", "x")
	h.do("PATCH", "/v1/external/m", "x")
	got := map[string]float64{}
	waitFor(t, func() bool { // the duration is observed after the answer is out
		families, err := registry.Gather()
		must(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return got["sluice_http_request_duration_seconds"] == 3 && got["sluice_http_requests_in_flight"] == 0
	})
	for name, want := range map[string]float64{
		"sluice_http_requests_total 200 PUT": 1, "sluice_http_requests_total 400 PUT": 1, "sluice_http_requests_total 405 other": 1,
		"sluice_connections_refused_total http": 0, "sluice_http_accept_errors_total": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v (%v)", name, v, want, got)
		}
	}
	if _, ok := got["sluice_connections http"]; !ok {
		t.Error("no sluice_connections")
	}
}

// A client that speaks TLS is named in the log, once a second, and is told in words that it can
// show.
func TestTLSOnThePlainPort(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h := start(t, inMemory)
		for range 5 {
			err := tls.Client(h.dial(), &tls.Config{InsecureSkipVerify: true}).Handshake()
			if err == nil || !strings.Contains(err.Error(), "does not look like a TLS handshake") {
				t.Errorf("the client says %v", err)
			}
		}
		c := h.dial()
		write(t, c, "\x16\x03\x01\x00\x00")
		text, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(text), "say http://, not https://") {
			t.Errorf("%q %v", text, err)
		}
		const says = `msg="push: a client speaks TLS, but this port is plain HTTP: it must say http://, not https://" peer=127.0.0.1:`
		if log := h.logs.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, says) {
			t.Errorf("%s", log)
		}
	})
}

// Neither silent connections nor idle ones, nor those that never finish a request, keep a client out.
func TestACrowdKeepsNoneOut(t *testing.T) {
	const most = 128
	for name, says := range map[string]string{
		"silent": "", "idle": "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "half a header": "GET / HT",
		"half a body": "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n1",
	} {
		t.Run(name, func(t *testing.T) {
			address := crowd.Address(t)
			crowd.KeepsNoneOut(t, address, most, says, func() (stop func()) {
				h := start(t, func(c *Config, _ *Parts) {
					c.Address, c.MaxConnections, c.MaxConnsPerIP = address, most, most
					c.ShutdownTimeout = time.Millisecond // unfinished requests last
				})
				return h.stop
			}, func(conn net.Conn) error {
				write(t, conn, "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1")
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err == nil && res.StatusCode != http.StatusOK {
					text, _ := io.ReadAll(res.Body)
					err = fmt.Errorf("%s: %s", res.Status, text)
				}
				return err
			})
		})
	}
}
