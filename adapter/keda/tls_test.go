package keda

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// A client without a certificate of the authority, or with another name, reads nothing.
func TestClientsShowACertificate(t *testing.T) {
	ca := testauthority.New(t)
	cfg := Config{Address: "127.0.0.1:0", ClientNames: []string{"keda-operator.keda.svc"}}
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = ca.Sign(t, t.TempDir(), testauthority.Leaf{})
	source := &oneMetric{value: 1}
	server, err := Listen(cfg, Parts{Source: source, Ready: func() (bool, string) { return true, "" }, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() { stop(); <-ended }()
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(cfg.CAFile)
	if err != nil || !roots.AppendCertsFromPEM(authority) {
		t.Fatal(err)
	}
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
			client := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
			if c.by != nil {
				cert, key, _ := c.by.Sign(t, t.TempDir(), c.leaf)
				pair, err := tls.LoadX509KeyPair(cert, key)
				must(t, err)
				client.Certificates = []tls.Certificate{pair}
			}
			conn, err := grpc.NewClient(server.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(client)))
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
