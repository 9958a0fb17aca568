package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
)

// secure are credentials that read the authorities of the server's certificate again for each connection: a certificate that
// is renewed may be of others.
type secure struct {
	credentials.TransportCredentials // of the first reading
	file                             string
}

func newSecure(file string) (credentials.TransportCredentials, error) {
	first, err := readAuthorities(file)
	return &secure{first, file}, err
}

// ClientHandshake implements credentials.TransportCredentials.
func (s *secure) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	now, err := readAuthorities(s.file)
	if err != nil {
		return nil, nil, err
	}
	return now.ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (s *secure) Clone() credentials.TransportCredentials {
	return &secure{s.TransportCredentials.Clone(), s.file}
}

// readAuthorities reads a file in PEM; empty: the authorities are those of the system.
func readAuthorities(file string) (credentials.TransportCredentials, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if file == "" {
		return credentials.NewTLS(config), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the authorities of the server cannot be read: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return credentials.NewTLS(config), nil
}
