package keda

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// The operator sends no pings of its own, so the server finds out by its own that a connection is dead.
func TestSilentConnectionsArePinged(t *testing.T) {
	t.Parallel()
	server, err := Listen(Config{Address: "127.0.0.1:0", Insecure: true}, Parts{Source: &oneMetric{}, Ready: func() (bool, string) { return true, "" }, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() { stop(); <-ended }()

	conn, err := net.Dial("tcp", server.Addr().String()) // it answers no ping
	must(t, err)
	defer conn.Close()
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(conn, conn)
	must(t, frames.WriteSettings())
	const within = pingEvery + pingPatience + late
	_ = conn.SetReadDeadline(time.Now().Add(within))
	pinged := false
	for {
		frame, err := frames.ReadFrame()
		switch ping, is := frame.(*http2.PingFrame); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.Fatalf("the connection is open after %s; pinged: %v", within, pinged)
		case err != nil && pinged:
			return
		case err != nil:
			t.Fatalf("closed without a ping: %v", err)
		case is && !ping.IsAck():
			pinged = true
		}
	}
}
