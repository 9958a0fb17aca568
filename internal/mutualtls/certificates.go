package mutualtls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/internal/ratelog"
)

// RereadAfter bounds how often handshakes read the files: anyone who can connect can begin one.
const RereadAfter = time.Second

// Config names the files of one end, and who may be at the other.
type Config struct {
	CertFile, KeyFile, CAFile string // PEM
	// ServerOnly is a server that asks for no certificate: there is no CAFile.
	ServerOnly bool
	// Names are the host names of which the other end's certificate must have one. They keep out
	// the certificates that the same authority signed for other programs. None: any certificate of
	// the authority will do.
	Names []string
	// Wanted describes Names in errors, as in "a host of the peers".
	Wanted string
	// Which tells the connections from others in logs, as in "between replicas".
	Which string
}

// Certificates are the certificates of connections. A handshake reads the files again if they were
// read more than RereadAfter ago; open connections keep the certificates they began with.
//
// One rule holds for both ends: the certificate authority signed the other end's certificate for a
// server or a client, and it has one of Config.Names.
type Certificates struct {
	cfg   Config
	files [3]string // certificate, key, authorities
	log   *slog.Logger

	mu      sync.Mutex
	read    time.Time
	content [3][]byte
	current *credentials

	expires                   atomic.Int64 // Unix seconds
	refused                   atomic.Uint64
	refusals, faults, expired ratelog.Limiter
}

// credentials are the parsed files.
type credentials struct {
	pair        tls.Certificate
	authorities *x509.CertPool
}

// New reads the files.
func New(cfg Config, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{cfg: cfg, files: [3]string{cfg.CertFile, cfg.KeyFile, cfg.CAFile}, log: log}
	c.refusals.Interval, c.faults.Interval, c.expired.Interval = logInterval, logInterval, logInterval
	return c, c.load()
}

// logInterval is the least time between two logs of one kind.
const logInterval = 30 * time.Second

// Expires is the end of the certificate, in Unix seconds.
func (c *Certificates) Expires() int64 { return c.expires.Load() }

// Refused counts the connections that were refused because of the other end's certificate.
func (c *Certificates) Refused() uint64 { return c.refused.Load() }

// load reads the files if they have changed.
func (c *Certificates) load() error {
	var content [3][]byte
	for i, field := range []config.Field{"CertFile", "KeyFile", "CAFile"} {
		var err error
		if c.cfg.ServerOnly && field == "CAFile" {
			continue
		}
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
	if !c.cfg.ServerOnly && !authorities.AppendCertsFromPEM(content[2]) {
		return config.NewFault("CAFile", "has no certificate in PEM")
	}
	if c.current != nil {
		c.log.Info("reloaded the certificate of the connections "+c.cfg.Which, "expires", pair.Leaf.NotAfter)
	}
	c.content, c.current = content, &credentials{pair, authorities}
	c.expires.Store(pair.Leaf.NotAfter.Unix())
	return nil
}

// Look reads the files again if they have changed. A listener does so at each handshake.
func (c *Certificates) Look() { c.latest() }

// latest returns the credentials in the files, or the last valid ones.
func (c *Certificates) latest() *credentials {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.read) >= RereadAfter {
		c.read = now
		if err := c.load(); err != nil {
			c.complain(&c.faults, "cannot reload the certificate of the connections "+c.cfg.Which, "error", err)
		}
	}
	if end := c.current.pair.Leaf.NotAfter; now.After(end) {
		c.complain(&c.expired, "the certificate of the connections "+c.cfg.Which+" has expired, so the other end refuses it",
			"expired", end, "file", c.files[0])
	}
	return c.current
}

func (c *Certificates) complain(limit *ratelog.Limiter, message string, args ...any) {
	if suppressed, ok := limit.Allow(); ok {
		c.log.Error(message, append(args, "suppressed", suppressed)...)
	}
}

// TLS serves both ends. Every handshake uses the current files.
func (c *Certificates) TLS() *tls.Config {
	if c.cfg.ServerOnly {
		return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.latest().pair, nil
		}}
	}
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

// verify decides whether the other end may connect, or be connected to.
func (c *Certificates) verify(state tls.ConnectionState, with string) error {
	err := c.accepts(state.PeerCertificates)
	if err == nil {
		return nil
	}
	c.refused.Add(1)
	if suppressed, ok := c.refusals.Allow(); ok {
		c.log.Warn("refused a connection "+c.cfg.Which, "with", with, "error", err, "suppressed", suppressed)
	}
	return err
}

// ErrNoCertificate is the error of an end without a certificate.
var ErrNoCertificate = errors.New("the other end has no certificate")

func (c *Certificates) accepts(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return ErrNoCertificate
	}
	either := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if err := Verify(chain, x509.VerifyOptions{Roots: c.latest().authorities, KeyUsages: either}); err != nil {
		return err
	}
	for _, host := range c.cfg.Names {
		if chain[0].VerifyHostname(host) == nil {
			return nil
		}
	}
	if len(c.cfg.Names) == 0 {
		return nil
	}
	return fmt.Errorf("the certificate names %q and %v; must name %s",
		chain[0].DNSNames, chain[0].IPAddresses, c.cfg.Wanted)
}
