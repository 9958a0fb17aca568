package adapter

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAddressInUseIsOneClearError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = taken.Close() }()
	cfg := DefaultConfig()
	cfg.Address = taken.Addr().String()
	_, err = New(cfg, Parts{Source: new(memory), Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), cfg.Address+" is in use") {
		t.Errorf("%v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	missing := DefaultConfig()
	missing.CertFile, missing.KeyFile = filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	blocked := DefaultConfig()
	blocked.CertDir = filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(blocked.CertDir, nil, 0o600))
	for want, cfg := range map[string]Config{"Address": {}, "CertFile": missing, "certificate": blocked} {
		cfg.Address = strings.Replace(cfg.Address, "6443", "0", 1)
		if _, err := New(cfg, Parts{Source: new(memory), Logger: quiet}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something about %s", err, want)
		}
	}
}

// A stop answers the requests in flight; then nothing listens any more.
func TestStopIsGraceful(t *testing.T) {
	m := shop()
	m.blocked, m.entered = make(chan struct{}), make(chan struct{})
	cfg := configured(nil)
	server, err := New(cfg, Parts{Source: m, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	a := &api{Server: server, url: "https://" + server.Addr().String(), client: &http.Client{Transport: transport}}
	a.waitReady(t)
	code := make(chan int, 1)
	go func() {
		resp, err := a.client.Get(a.url + externalRoot + "namespaces/shop/orders_waiting")
		if err != nil {
			code <- 0
			return
		}
		_ = resp.Body.Close()
		code <- resp.StatusCode
	}()
	<-m.entered
	stop()
	select {
	case err := <-done:
		t.Fatalf("Run returned %v with a request in flight", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(m.blocked)
	if got := <-code; got != http.StatusOK {
		t.Errorf("the request in flight got %d", got)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if conn, err := net.Dial("tcp", server.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("something still listens")
	}
}
