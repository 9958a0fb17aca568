package listener

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

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/mutualtls"
	"github.com/sluice-metrics/sluice/receiver/credential"
)

// The values of TLSFiles.ClientAuth.
const (
	ClientAuthRequest = "request" // a client may send a certificate, which must be valid
	ClientAuthRequire = "require"
)

// TLSFiles are the PEM files of the port, named as in the configuration.
type TLSFiles struct {
	Cert, Key, ClientCA string
	ClientAuth          string // ClientAuthRequest or ClientAuthRequire
}

// Certificates are the port's certificate and the authorities of client certificates. They are read
// again when their files change; open connections keep the ones they began with.
type Certificates struct {
	files   TLSFiles
	log     *slog.Logger
	worded  func(error) error
	held    [3][]byte // the files' content; only Load uses it
	current atomic.Pointer[tls.Config]
	Expires atomic.Int64 // Unix seconds
}

// NewCertificates reads the files; nil: the port is plain HTTP.
func NewCertificates(files TLSFiles, log *slog.Logger, worded func(error) error) (*Certificates, error) {
	if files.Cert == "" {
		return nil, nil
	}
	c := &Certificates{files: files, log: log, worded: worded}
	if c.worded == nil {
		c.worded = func(err error) error { return err }
	}
	_, err := c.Load()
	return c, err
}

// server returns a configuration whose every handshake uses the current files, and offers the protocols.
func (c *Certificates) server(protocols []string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			served := c.current.Load()
			if len(protocols) > 0 {
				served = served.Clone()
				served.NextProtos = protocols
			}
			return served, nil
		},
	}
}

// Load reads the files, and reports whether they have changed.
func (c *Certificates) Load() (changed bool, err error) {
	var content [3][]byte
	for i, file := range []struct {
		field config.Field
		path  string
	}{
		{"TLSCertFile", c.files.Cert}, {"TLSKeyFile", c.files.Key}, {"TLSClientCAFile", c.files.ClientCA},
	} {
		if file.path == "" {
			continue
		}
		if content[i], err = os.ReadFile(file.path); err != nil {
			return false, config.NewFault(file.field, "cannot be read: %w", err)
		}
	}
	if c.current.Load() != nil && bytes.Equal(content[0], c.held[0]) && bytes.Equal(content[1], c.held[1]) &&
		bytes.Equal(content[2], c.held[2]) {
		return false, nil
	}
	current, err := c.configOf(content)
	if err != nil {
		return false, err
	}
	c.held = content
	c.Expires.Store(current.Certificates[0].Leaf.NotAfter.Unix())
	c.current.Store(current)
	return true, nil
}

func (c *Certificates) configOf(content [3][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return nil, config.NewFault("TLSCertFile", "%s, %s %s: %w; must be a certificate and its key, in PEM",
			c.files.Cert, config.Field("TLSKeyFile"), c.files.Key, err)
	}
	served := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
	}
	if c.files.ClientCA == "" {
		return served, nil
	}
	served.ClientCAs = x509.NewCertPool()
	if !served.ClientCAs.AppendCertsFromPEM(content[2]) {
		return nil, config.NewFault("TLSClientCAFile", "is %s, which holds no certificate; must hold certificates in PEM",
			c.files.ClientCA)
	}
	served.ClientAuth = tls.RequestClientCert
	if c.files.ClientAuth == ClientAuthRequire {
		served.ClientAuth = tls.RequireAnyClientCert
	}
	authorities := served.ClientCAs
	served.VerifyConnection = func(state tls.ConnectionState) error { // crypto/tls would verify whatever takes long
		return verifyClient(state.PeerCertificates, authorities)
	}
	served.SessionTicketsDisabled = true // a resumed session would keep the authorities of its first handshake
	return served, nil
}

func verifyClient(chain []*x509.Certificate, authorities *x509.CertPool) error {
	if len(chain) == 0 {
		return nil
	}
	return mutualtls.Verify(chain, x509.VerifyOptions{Roots: authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Follow reads the files again when they change, until ctx ends. Invalid files leave the previous
// ones in force.
func (c *Certificates) Follow(ctx context.Context) {
	credential.PollFiles(ctx, c.Load,
		func() {
			c.log.Info("push: the certificate was reloaded", "file", c.files.Cert, "expires",
				time.Unix(c.Expires.Load(), 0).UTC())
		},
		func(err error) {
			c.log.Error("push: the new certificate is invalid; the previous one stays in use", "error", c.worded(err))
		})
}

// shake performs a connection's handshake, before its first byte is read.
func (c *Conn) shake() error {
	ctx, cancel := context.WithTimeout(context.Background(), min(connlimit.HandshakeTimeout, c.listener.readTimeout))
	defer cancel()
	err := c.tls.HandshakeContext(ctx)
	if err == nil {
		c.shaken.Store(true)
		if verified := c.tls.ConnectionState().PeerCertificates; len(verified) > 0 {
			c.Certificate = verified[0]
		}
		return nil
	}
	c.listener.Counts.HandshakeErrors.Add(1)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && speaksHTTP(plain.RecordHeader[:]) {
		c.refuse("push: a client speaks plain HTTP, but this port is TLS: it must say https://, not http://", encryptedAnswer)
	}
	return err
}

// speaksHTTP reports whether the first bytes begin the first line of an HTTP request.
func speaksHTTP(first []byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "PUT /", "POST ", "DELET", "OPTIO", "PATCH", "CONNE", "TRACE"} {
		if string(first[:min(len(first), len(method))]) == method {
			return true
		}
	}
	return false
}
