package console

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
)

func TestACrowdKeepsNoneOut(t *testing.T) {
	address := crowd.Address(t)
	crowd.KeepsNoneOut(t, address, maxConnections, "", func() (stop func()) {
		s, err := New(Config{Address: address}, Parts{Source: shop(), Logger: slog.New(slog.DiscardHandler), Health: func() Health { return Health{} }})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}, func(conn net.Conn) error {
		_, _ = io.WriteString(conn, "GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
		_, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return err
	})
}
