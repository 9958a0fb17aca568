package httpserver

import (
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
)

// Config bounds what the server may use. Every limit is per server unless its name says otherwise.
type Config struct {
	// Address is the TCP address to listen on, "host:port".
	Address string
	// OTLPAddress is a second address, on which OpenTelemetry's clients look for OTLP/HTTP; empty: none.
	OTLPAddress string

	// Auth reports whether bearer tokens are checked: AuthNone or, in a cluster only, AuthToken.
	Auth string
	// TokenAudience is the audience that a token must have been issued for.
	TokenAudience string
	// BasicAuthFile holds names and passwords in the format of "htpasswd -B"; empty: no basic
	// authentication.
	BasicAuthFile string

	// TLSCertFile and TLSKeyFile are the port's certificate and its key, in PEM; both empty: plain
	// HTTP.
	TLSCertFile string
	TLSKeyFile  string
	// TLSClientCAFile holds the certificate authorities of client certificates, in PEM; empty:
	// clients are not asked for a certificate.
	TLSClientCAFile string
	// TLSClientAuth is listener.ClientAuthRequest or listener.ClientAuthRequire.
	TLSClientAuth string

	// AllowedHosts are the names that a request from this machine may have in its Host header,
	// beside localhost and IP addresses: see checkOrigin.
	AllowedHosts []string

	// MaxBodyBytes bounds one body as received, MaxDecompressedBytes the same body decompressed; 0:
	// the value of MaxBodyBytes.
	MaxBodyBytes         int
	MaxDecompressedBytes int
	// MaxBufferedBytes bounds the bodies of all requests in flight together. The first 64 KiB of
	// each are not counted: they are bounded by MaxConnections. Nor are the first 32 KiB of each
	// namespace, and of each address of which no pod is known.
	MaxBufferedBytes int64
	// MaxHeaderBytes bounds a request's first line and headers; each connection has a buffer of
	// this size.
	MaxHeaderBytes int
	// MaxLineBytes bounds one line of a body of lines.
	MaxLineBytes int
	// MaxLabels bounds the labels of one sample, MaxLabelBytes each key and each value.
	MaxLabels     int
	MaxLabelBytes int

	// MaxConnections bounds the connections, and with them the requests in flight.
	MaxConnections int
	// MaxConnsPerIP bounds the connections of one address. 0: no limit.
	MaxConnsPerIP int
	// ReceiveBuffer is the kernel's buffer of each connection to Address, in bytes; 0: the system's default.
	ReceiveBuffer int

	// ReadTimeout bounds the reading of a request, from its first byte to the last of its body.
	ReadTimeout time.Duration
	// WriteTimeout bounds the writing of a response.
	WriteTimeout time.Duration
	// IdleTimeout bounds the time between two requests of a connection.
	IdleTimeout time.Duration
	// SyncTimeout bounds how long ?sync=true waits for the disk.
	SyncTimeout time.Duration
	// ShutdownTimeout bounds the requests in flight once Run's context has ended.
	ShutdownTimeout time.Duration
}

// DefaultConfig listens on loopback, on the port that Pushgateway clients know.
func DefaultConfig() Config {
	return Config{
		Address:          "127.0.0.1:9091",
		Auth:             AuthNone,
		TokenAudience:    "sluice",
		TLSClientAuth:    listener.ClientAuthRequest,
		MaxBodyBytes:     8 << 20,
		MaxBufferedBytes: 64 << 20,
		MaxHeaderBytes:   16 << 10,
		MaxLineBytes:     64 << 10,
		MaxLabels:        64,
		MaxLabelBytes:    1024,
		MaxConnections:   4096,
		MaxConnsPerIP:    1024,
		ReadTimeout:      30 * time.Second,
		WriteTimeout:     30 * time.Second,
		IdleTimeout:      90 * time.Second,
		SyncTimeout:      10 * time.Second,
		ShutdownTimeout:  10 * time.Second,
	}
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	faults.AddUnlessHostPort("Address", c.Address, DefaultConfig().Address)
	if c.OTLPAddress != "" {
		faults.AddUnlessHostPort("OTLPAddress", c.OTLPAddress, ":4318")
	}
	for _, bound := range []struct {
		field      config.Field
		value, min int64
	}{
		{"MaxBodyBytes", int64(c.MaxBodyBytes), 1},
		{"MaxDecompressedBytes", int64(c.MaxDecompressedBytes), 0},
		{"MaxBufferedBytes", c.MaxBufferedBytes, int64(c.MaxBodyBytes) + int64(c.MaxDecompressed())},
		{"MaxHeaderBytes", int64(c.MaxHeaderBytes), 1024},
		{"MaxLineBytes", int64(c.MaxLineBytes), 1024},
		{"MaxLabels", int64(c.MaxLabels), 1},
		{"MaxLabelBytes", int64(c.MaxLabelBytes), 1},
		{"MaxConnections", int64(c.MaxConnections), 1},
		{"MaxConnsPerIP", int64(c.MaxConnsPerIP), 0},
	} {
		if bound.value < bound.min {
			faults.Add(bound.field, "is %d; must be at least %d", bound.value, bound.min)
		}
	}
	for _, timeout := range []struct {
		field config.Field
		value time.Duration
	}{
		{"ReadTimeout", c.ReadTimeout},
		{"WriteTimeout", c.WriteTimeout},
		{"IdleTimeout", c.IdleTimeout},
		{"SyncTimeout", c.SyncTimeout},
		{"ShutdownTimeout", c.ShutdownTimeout},
	} {
		if timeout.value <= 0 {
			faults.Add(timeout.field, "is %v; must be above 0", timeout.value)
		}
	}
	if c.Auth != AuthNone && c.Auth != AuthToken {
		faults.Add("Auth", "is %q; must be %s or %s", c.Auth, AuthNone, AuthToken)
	}
	if c.Auth == AuthToken && c.TokenAudience == "" {
		faults.Add("TokenAudience", "is empty; must be the audience that tokens are issued for")
	}
	c.validateTLS(&faults)
	for _, name := range c.AllowedHosts {
		if name == "" || strings.ContainsAny(name, "/:*@ ") {
			faults.Add("AllowedHosts", "has %q; must be a host name without a port, as in sluice.test", name)
		}
	}
	return faults.Join()
}

func (c Config) validateTLS(faults *config.Faults) {
	certFile, keyFile, caFile := config.Field("TLSCertFile"), config.Field("TLSKeyFile"), config.Field("TLSClientCAFile")
	switch {
	case c.TLSCertFile != "" && c.TLSKeyFile == "":
		faults.Add(certFile, "is set without %s; must be both or neither", keyFile)
	case c.TLSCertFile == "" && c.TLSKeyFile != "":
		faults.Add(keyFile, "is set without %s; must be both or neither", certFile)
	}
	if c.TLSClientCAFile != "" && c.TLSCertFile == "" {
		faults.Add(caFile, "is set without %s; clients show certificates over TLS only", certFile)
	}
	switch {
	case c.TLSClientAuth != listener.ClientAuthRequest && c.TLSClientAuth != listener.ClientAuthRequire:
		faults.Add("TLSClientAuth", "is %q; must be %s or %s", c.TLSClientAuth, listener.ClientAuthRequest,
			listener.ClientAuthRequire)
	case c.TLSClientAuth == listener.ClientAuthRequire && c.TLSClientCAFile == "":
		faults.Add("TLSClientAuth", "is %s; must be %s without %s", listener.ClientAuthRequire,
			listener.ClientAuthRequest, caFile)
	}
}

// MaxDecompressed is MaxDecompressedBytes, or MaxBodyBytes if that is 0.
func (c Config) MaxDecompressed() int {
	if c.MaxDecompressedBytes == 0 {
		return c.MaxBodyBytes
	}
	return c.MaxDecompressedBytes
}
