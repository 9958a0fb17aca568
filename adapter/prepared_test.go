package adapter

import (
	"log/slog"
	"testing"
)

// prepared is a server on a free port with the access that a test decides on.
func prepared(t testing.TB, parts Parts, who access, options ...func(*Config)) *Server {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Address = "127.0.0.1:0"
	for _, change := range options {
		change(&cfg)
	}
	if parts.Source == nil {
		parts.Source = shop()
	}
	if parts.Logger == nil {
		parts.Logger = slog.New(slog.DiscardHandler)
	}
	routeKlog(parts.Logger)
	server, err := prepare(cfg, parts, who)
	if err != nil {
		t.Fatal(err)
	}
	return server
}
