package keda

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// secured is a configuration with certificates, and how a client with one of an authority connects; nil: without one.
func secured(t *testing.T, address string) (ca *testauthority.Authority, cfg Config, as func(*testauthority.Authority, testauthority.Leaf) credentials.TransportCredentials) {
	ca = testauthority.New(t)
	cfg = Config{Address: address, ClientNames: []string{"keda-operator.keda.svc"}}
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = ca.Sign(t, t.TempDir(), testauthority.Leaf{})
	roots := x509.NewCertPool()
	if authority, err := os.ReadFile(cfg.CAFile); err != nil || !roots.AppendCertsFromPEM(authority) {
		t.Fatal(err)
	}
	return ca, cfg, func(by *testauthority.Authority, leaf testauthority.Leaf) credentials.TransportCredentials {
		client := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
		if by != nil {
			cert, key, _ := by.Sign(t, t.TempDir(), leaf)
			pair, err := tls.LoadX509KeyPair(cert, key)
			must(t, err)
			client.Certificates = []tls.Certificate{pair}
		}
		return credentials.NewTLS(client)
	}
}

// listenAs serves one metric until the test ends.
func listenAs(t *testing.T, cfg Config) *Server {
	server, err := Listen(cfg, Parts{Source: &oneMetric{value: 1}, Ready: func() (bool, string) { return true, "" }, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return server
}

// A client without a certificate of the authority, or with another name, reads nothing.
func TestClientsShowACertificate(t *testing.T) {
	ca, cfg, as := secured(t, "127.0.0.1:0")
	server := listenAs(t, cfg)
	for _, c := range []struct {
		name string
		by   *testauthority.Authority
		leaf testauthority.Leaf
		may  bool
	}{
		{"KEDA", ca, testauthority.Leaf{Host: "keda-operator.keda.svc"}, true},
		{"another name", ca, testauthority.Leaf{Host: "web.shop.svc"}, false},
		{"another authority", testauthority.New(t), testauthority.Leaf{Host: "keda-operator.keda.svc"}, false},
		{"ended", ca, testauthority.Leaf{Host: "keda-operator.keda.svc", Ended: true}, false},
		{"no certificate", nil, testauthority.Leaf{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := grpc.NewClient(server.Addr().String(), grpc.WithTransportCredentials(as(c.by, c.leaf)))
			must(t, err)
			defer conn.Close()
			answer, err := externalscaler.NewExternalScalerClient(conn).IsActive(t.Context(), ref())
			if c.may && (err != nil || !answer.GetResult()) || !c.may && status.Code(err) != codes.Unavailable {
				t.Errorf("%v %v", answer, err)
			}
		})
	}
	if refused := server.secured.Refused(); refused < 4 {
		t.Errorf("%d refusals are counted", refused)
	}
}

// Go's TLS would keep the first 256 KiB of a stranger's handshake, on each connection.
func TestHandshakesHaveABound(t *testing.T) {
	_, cfg, _ := secured(t, "127.0.0.1:0")
	address := listenAs(t, cfg).Addr().String()
	testauthority.WantBoundedHandshakes(t, "h2", func() (net.Conn, error) { return net.Dial("tcp", address) })
}

// KEDA keeps a connection for each spelling of a scalerAddress: "sluice-keda", "Sluice-KEDA", and so on. A namespace with
// hundreds leaves some to others, in calls and in streams, and may go on where others ask, too.
func TestSpellingsLeaveConnections(t *testing.T) {
	ca, cfg, as := secured(t, "127.0.0.1:0")
	server := listenAs(t, cfg)
	operator := as(ca, testauthority.Leaf{Host: "keda-operator.keda.svc"})
	asks := func(conn *grpc.ClientConn, namespace string) error {
		of := ref()
		of.Namespace = namespace
		_, err := externalscaler.NewExternalScalerClient(conn).IsActive(t.Context(), of)
		return err
	}
	dial := func() *grpc.ClientConn {
		conn, err := grpc.NewClient(server.Addr().String(), grpc.WithTransportCredentials(operator))
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var answered, refused []*grpc.ClientConn
	for range maxConnectionsEach {
		conn := dial()
		switch err := asks(conn, "crowd"); {
		case err == nil:
			answered = append(answered, conn)
		default:
			wantCode(t, err, codes.ResourceExhausted, `namespace "crowd" have 384 connections`)
			refused = append(refused, conn)
		}
	}
	if len(answered) != maxConnectionsEach*3/4 {
		t.Errorf("%d connections of one namespace were answered", len(answered))
	}
	of := ref()
	of.Namespace = "crowd"
	stream, err := externalscaler.NewExternalScalerClient(refused[0]).StreamIsActive(t.Context(), of)
	must(t, err)
	_, err = stream.Recv()
	wantCode(t, err, codes.ResourceExhausted, "384 connections")
	must(t, answered[0].Close())
	for server.listener.Owned("crowd") == len(answered) { // until the server has seen the end
		time.Sleep(time.Millisecond)
	}
	must(t, asks(dial(), "crowd"))
	for range 20 {
		conn := dial()
		must(t, asks(conn, "shop"))
		must(t, asks(conn, "crowd"))
	}
	must(t, asks(answered[1], "crowd"))
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"":                              {},
		"must be host:port":             {Address: "9095", Insecure: true},
		"anyone who can connect":        {Address: ":9095"},
		"must be set together with":     {Address: ":9095", CertFile: "a"},
		"is true beside certificates":   {Address: ":9095", CertFile: "a", KeyFile: "b", CAFile: "c", Insecure: true, ClientNames: []string{"x"}},
		"must name the hosts of KEDA's": {Address: ":9095", CertFile: "a", KeyFile: "b", CAFile: "c"},
	} {
		err := cfg.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v; want %q", cfg, err, want)
		}
	}
}
