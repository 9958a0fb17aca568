//go:build !race

// Handshakes have two seconds, which the race detector takes from thousands of connections.

package keda

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Strangers without a certificate keep the operator out neither of fresh connections nor of one that
// was open before.
func TestACrowdKeepsNoneOut(t *testing.T) {
	ca, address := testauthority.New(t), crowd.Address(t)
	cfg := Config{Address: address, ClientNames: []string{"keda-operator.keda.svc"}}
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = ca.Sign(t, t.TempDir(), testauthority.Leaf{})
	cert, key, _ := ca.Sign(t, t.TempDir(), testauthority.Leaf{Host: cfg.ClientNames[0]})
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	roots := x509.NewCertPool()
	if authority, err := os.ReadFile(cfg.CAFile); err != nil || !roots.AppendCertsFromPEM(authority) {
		t.Fatal(err)
	}
	operator := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: []tls.Certificate{pair}})
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
