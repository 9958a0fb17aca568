//go:build !race

// Handshakes have two seconds, which the race detector takes from thousands of connections.

package keda

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"google.golang.org/grpc"
)

// Strangers without a certificate keep the operator out neither of fresh connections nor of one that
// was open before.
func TestACrowdKeepsNoneOut(t *testing.T) {
	address := crowd.Address(t)
	ca, cfg, as := secured(t, address)
	operator := as(ca, testauthority.Leaf{Host: cfg.ClientNames[0]})
	crowd.KeepsNoneOut(t, address, maxConnections, "", func() (stop func()) {
		server, err := Listen(cfg, Parts{Source: &oneMetric{value: 1}, Ready: func() (bool, string) { return true, "" }, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		return crowd.Run(t, server.Run)
	}, func(conn net.Conn) error {
		client, err := grpc.NewClient(address, grpc.WithTransportCredentials(operator),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }))
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = externalscaler.NewExternalScalerClient(client).IsActive(t.Context(), ref())
		return err
	})
}
