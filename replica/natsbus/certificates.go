package natsbus

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/config"
	"github.com/sluice-metrics/sluice/ratelog"
)

// rereadAfter bounds how often handshakes read the files: anyone who can connect can begin one.
const rereadAfter = time.Second

// certificates secure the connections between replicas. A handshake reads the files again if they
// were read more than rereadAfter ago; open connections keep the certificates they began with.
//
// One rule holds for both ends, since replicas are equals: the certificate authority signed the
// certificate for a server or a client, and it names a host of Config.Peers. The second half keeps
// out the certificates that the same authority signed for other programs.
type certificates struct {
	files [3]string // certificate, key, authorities
	hosts []string  // of Config.Peers
	log   *slog.Logger

	mu      sync.Mutex
	read    time.Time
	content [3][]byte
	current *credentials

	expires              atomic.Int64 // Unix seconds
	refused              atomic.Uint64
	refusals, complaints ratelog.Limiter
}

// credentials are the parsed files.
type credentials struct {
	pair        tls.Certificate
	authorities *x509.CertPool
}

// newCertificates reads the files; nil: no TLS.
func newCertificates(cfg Config, log *slog.Logger) (*certificates, error) {
	if cfg.CertFile == "" {
		return nil, nil
	}
	c := &certificates{files: [3]string{cfg.CertFile, cfg.KeyFile, cfg.CAFile}, log: log}
	c.refusals.Interval, c.complaints.Interval = logInterval, logInterval
	for _, peer := range cfg.Peers {
		host, _, err := net.SplitHostPort(peer)
		if err != nil {
			return nil, err
		}
		c.hosts = append(c.hosts, host)
	}
	return c, c.load()
}

// load reads the files if they have changed.
func (c *certificates) load() error {
	var content [3][]byte
	for i, field := range []config.Field{"CertFile", "KeyFile", "CAFile"} {
		var err error
		if content[i], err = os.ReadFile(c.files[i]); err != nil {
			return config.NewFault(field, "cannot be read: %w", err)
		}
	}
	if c.current != nil && bytes.Equal(content[0], c.content[0]) &&
		bytes.Equal(content[1], c.content[1]) && bytes.Equal(content[2], c.content[2]) {
		return nil
	}
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return config.NewFault("CertFile", "cannot be used with %s: %w", config.Field("KeyFile"), err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(content[2]) {
		return config.NewFault("CAFile", "has no certificate in PEM")
	}
	if c.current != nil {
		c.log.Info("reloaded the certificate of the connections between replicas", "expires", pair.Leaf.NotAfter)
	}
	c.content, c.current = content, &credentials{pair, authorities}
	c.expires.Store(pair.Leaf.NotAfter.Unix())
	return nil
}

// latest returns the credentials in the files, or the last valid ones.
func (c *certificates) latest() *credentials {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.read) >= rereadAfter {
		c.read = now
		if err := c.load(); err != nil {
			c.complain("cannot reload the certificate of the connections between replicas", "error", err)
		}
	}
	if end := c.current.pair.Leaf.NotAfter; now.After(end) {
		c.complain("the certificate of the connections between replicas has expired, so the other replicas refuse it",
			"expired", end, "file", c.files[0])
	}
	return c.current
}

func (c *certificates) complain(message string, args ...any) {
	if suppressed, ok := c.complaints.Allow(); ok {
		c.log.Error(message, append(args, "suppressed", suppressed)...)
	}
}

// tlsConfig serves both ends. Every handshake uses the current files.
func (c *certificates) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// As the server. VerifyConnection decides, also about a client without a certificate, so
		// that every refusal is counted.
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now, from := c.latest(), hello.Conn.RemoteAddr()
			return &tls.Config{
				MinVersion:             tls.VersionTLS13,
				Certificates:           []tls.Certificate{now.pair},
				ClientAuth:             tls.RequestClientCert,
				SessionTicketsDisabled: true,
				VerifyConnection: func(state tls.ConnectionState) error {
					return c.verify(state, from.String())
				},
			}, nil
		},
		// As the client. crypto/tls would verify against authorities that never change;
		// VerifyConnection does the same against the current ones.
		InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c.latest().pair, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			return c.verify(state, state.ServerName)
		},
	}
}

// verify decides whether the other end is a replica.
func (c *certificates) verify(state tls.ConnectionState, with string) error {
	err := c.isReplica(state.PeerCertificates)
	if err == nil {
		return nil
	}
	c.refused.Add(1)
	if suppressed, ok := c.refusals.Allow(); ok {
		c.log.Warn("refused a connection between replicas", "with", with, "error", err, "suppressed", suppressed)
	}
	return err
}

var errNoCertificate = errors.New("the other end has no certificate")

func (c *certificates) isReplica(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errNoCertificate
	}
	options := x509.VerifyOptions{
		Roots: c.latest().authorities, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // either
	}
	for _, between := range chain[1:] {
		options.Intermediates.AddCert(between)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return err
	}
	for _, host := range c.hosts {
		if chain[0].VerifyHostname(host) == nil {
			return nil
		}
	}
	return fmt.Errorf("the certificate names %q and %v; must name a host of the peers",
		chain[0].DNSNames, chain[0].IPAddresses)
}
