package keda

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// The operator sends no pings of its own, so the server finds out by its own that a connection is dead.
func TestSilentConnectionsArePinged(t *testing.T) {
	t.Parallel()
	server, err := Listen(Config{Address: "127.0.0.1:0", Insecure: true}, Parts{Source: &oneMetric{}, Ready: func() (bool, string) { return true, "" }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() { stop(); <-ended }()

	for tries := 1; ; tries++ {
		took := closedAfter(t, server.Addr().String())
		if took <= 35*time.Second {
			return
		}
		if tries == 5 { // a loaded machine delays one or another
			t.Fatalf("the connection was closed after %s", took)
		}
	}
}

// closedAfter opens a connection that answers no ping, and returns how long it stays open.
func closedAfter(t *testing.T, address string) time.Duration {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(conn, conn)
	if err := frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	began, pinged := time.Now(), false
	_ = conn.SetReadDeadline(began.Add(40*time.Second + late))
	for {
		frame, err := frames.ReadFrame()
		switch ping, is := frame.(*http2.PingFrame); {
		case err != nil && pinged: // nobody answered
			return time.Since(began)
		case err != nil:
			t.Fatalf("no ping within %s: %v", time.Since(began), err)
		case is && !ping.IsAck():
			pinged = true
		}
	}
}
