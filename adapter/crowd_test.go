//go:build !race

// Handshakes have two seconds, which the race detector takes from thousands of connections.

package adapter

import (
	"bufio"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
)

func TestACrowdKeepsNoneOut(t *testing.T) {
	address := crowd.Address(t)
	crowd.KeepsNoneOut(t, address, DefaultConfig().MaxConnections, "", func() (stop func()) {
		cfg := DefaultConfig()
		cfg.Address = address
		server, err := New(cfg, Parts{Source: shop(), Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		return crowd.Run(t, server.Run)
	}, func(conn net.Conn) error {
		over := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		request, _ := http.NewRequest(http.MethodGet, "https://sluice/livez", nil)
		if err := request.Write(over); err != nil {
			return err
		}
		_, err := http.ReadResponse(bufio.NewReader(over), request)
		return err
	})
}
