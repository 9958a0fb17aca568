package push

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/config"
	"github.com/sluice-metrics/sluice/receiver/credential"
)

// What Config.TLSClientAuth may be.
const (
	ClientAuthRequest = "request" // a client may show a certificate, which must be good then
	ClientAuthRequire = "require"
)

// certificates are what the port shows of itself and believes of clients. They are read again when their files change;
// connections that are open keep what they began with.
type certificates struct {
	cfg     Config
	log     *slog.Logger
	worded  func(error) error
	held    [3][]byte // the files' content; of whoever loads
	current atomic.Pointer[tls.Config]
	expires atomic.Int64 // Unix seconds
}

// newCertificates reads the files; nil: the port is plain HTTP.
func newCertificates(cfg Config, parts Parts) (*certificates, error) {
	if cfg.TLSCertFile == "" {
		return nil, nil
	}
	c := &certificates{cfg: cfg, log: parts.Logger, worded: parts.Worded}
	if c.worded == nil {
		c.worded = func(err error) error { return err }
	}
	_, err := c.load()
	return c, err
}

// server is the configuration of one connection: each handshake takes what is current.
func (c *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// load reads the files, and reports whether they say something else than before.
func (c *certificates) load() (changed bool, err error) {
	var content [3][]byte
	for i, file := range []struct {
		field config.Field
		path  string
	}{
		{"TLSCertFile", c.cfg.TLSCertFile}, {"TLSKeyFile", c.cfg.TLSKeyFile}, {"TLSClientCAFile", c.cfg.TLSClientCAFile},
	} {
		if file.path == "" {
			continue
		}
		if content[i], err = os.ReadFile(file.path); err != nil {
			return false, config.NewFault(file.field, "cannot be read: %w", err)
		}
	}
	if c.current.Load() != nil && bytes.Equal(content[0], c.held[0]) && bytes.Equal(content[1], c.held[1]) && bytes.Equal(content[2], c.held[2]) {
		return false, nil
	}
	current, err := c.configOf(content)
	if err != nil {
		return false, err
	}
	c.held = content
	c.expires.Store(current.Certificates[0].Leaf.NotAfter.Unix())
	c.current.Store(current)
	return true, nil
}

func (c *certificates) configOf(content [3][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return nil, config.NewFault("TLSCertFile", "%s, %s %s: %w; must be a certificate and its key, in PEM",
			c.cfg.TLSCertFile, config.Field("TLSKeyFile"), c.cfg.TLSKeyFile, err)
	}
	served := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
	}
	if c.cfg.TLSClientCAFile == "" {
		return served, nil
	}
	served.ClientCAs = x509.NewCertPool()
	if !served.ClientCAs.AppendCertsFromPEM(content[2]) {
		return nil, config.NewFault("TLSClientCAFile", "is %s, which holds no certificate; must hold certificates in PEM", c.cfg.TLSClientCAFile)
	}
	served.ClientAuth = tls.VerifyClientCertIfGiven
	if c.cfg.TLSClientAuth == ClientAuthRequire {
		served.ClientAuth = tls.RequireAndVerifyClientCert
	}
	served.SessionTicketsDisabled = true // a resumed session would go by the authorities of its first handshake
	return served, nil
}

// follow reads the files again when they change, until ctx ends. What cannot be used leaves in force what was before.
func (c *certificates) follow(ctx context.Context) {
	credential.PollFiles(ctx, c.load,
		func() {
			c.log.Info("push: the certificate was read again", "file", c.cfg.TLSCertFile, "expires", time.Unix(c.expires.Load(), 0).UTC())
		},
		func(err error) {
			c.log.Error("push: the certificate that was read before stays in force", "error", c.worded(err))
		})
}

// handshakeTimeout bounds a handshake, as far as ReadTimeout does not.
const handshakeTimeout = 10 * time.Second

// shake does the handshake of a connection, before its first byte is read.
func (c *conn) shake() error {
	ctx, cancel := context.WithTimeout(context.Background(), min(handshakeTimeout, c.gate.readTimeout))
	defer cancel()
	err := c.tls.HandshakeContext(ctx)
	if err == nil {
		c.shaken.Store(true)
		if chains := c.tls.ConnectionState().VerifiedChains; len(chains) > 0 {
			c.certificate = chains[0][0]
		}
		return nil
	}
	c.gate.metrics.handshakeErrors.Add(1)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && speaksHTTP(plain.RecordHeader[:]) {
		c.refuse("push: a client speaks plain HTTP, but this port is TLS: it must say https://, not http://", encryptedAnswer)
	}
	return err
}

// speaksHTTP reports whether the first bytes are those of a request's first line.
func speaksHTTP(first []byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "PUT /", "POST ", "DELET", "OPTIO", "PATCH", "CONNE", "TRACE"} {
		if string(first[:min(len(first), len(method))]) == method {
			return true
		}
	}
	return false
}
