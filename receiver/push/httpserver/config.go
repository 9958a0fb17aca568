package httpserver

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/receiver/push/listener"
)

// ServerConfig is what the receiver may spend. Every limit is per server unless its name says otherwise.
type Config struct {
	// Address is the TCP address to listen on, "host:port".
	Address string

	// Auth says whether bearer tokens are looked at: AuthNone or AuthToken, which is for a cluster.
	Auth string
	// TokenAudience is what tokens must be meant for.
	TokenAudience string
	// BasicAuthFile holds names and passwords, as "htpasswd -B" writes them; empty: none are looked at.
	BasicAuthFile string

	// TLSCertFile and TLSKeyFile are the port's certificate and its key, PEM; both empty: plain HTTP.
	TLSCertFile string
	TLSKeyFile  string
	// TLSClientCAFile are the authorities of client certificates, PEM; empty: clients are not asked for one.
	TLSClientCAFile string
	// TLSClientAuth is ClientAuthRequest or ClientAuthRequire.
	TLSClientAuth string

	// AllowedHosts are names that a request from this machine may have in Host, beside localhost and addresses: see checkOrigin.
	AllowedHosts []string

	// MaxBodyBytes bounds one body as it comes over the wire, MaxDecompressedBytes what it decompresses to. 0: the same.
	MaxBodyBytes         int
	MaxDecompressedBytes int
	// MaxBufferedBytes bounds the bodies of all requests in flight together. The first 64 KiB of each
	// are not counted: they are bounded by MaxConnections.
	MaxBufferedBytes int64
	// MaxHeaderBytes bounds a request's first line and headers; each connection has a buffer of this size.
	MaxHeaderBytes int
	// MaxLineBytes bounds one line of a body of lines.
	MaxLineBytes int
	// MaxLabels bounds the labels of one sample, MaxLabelBytes each key and each value.
	MaxLabels     int
	MaxLabelBytes int

	// MaxConnections bounds connections, and with them requests in flight.
	MaxConnections int
	// MaxConnsPerIP bounds the connections of one IPv4 address or one IPv6 /64. 0: no limit.
	MaxConnsPerIP int

	// ReadTimeout is for a whole request, from its first byte to the last of its body.
	ReadTimeout time.Duration
	// WriteTimeout is for the answer.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may wait between two requests.
	IdleTimeout time.Duration
	// SyncTimeout is how long ?sync=true waits for the disk.
	SyncTimeout time.Duration
	// ShutdownTimeout is how long requests in flight may take to finish after Run's context ended.
	ShutdownTimeout time.Duration
}

// DefaultServerConfig listens on every address, on the port that Pushgateway clients know.
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

// Validate tells all faults at once, each with the name of its field as a configuration file has it.
func (c Config) Validate() error {
	var faults []error
	if err := checkAddress(c.Address); err != nil {
		faults = append(faults, err)
	}
	for _, f := range []struct {
		name       string
		value, min int64
	}{
		{"maxBodyBytes", int64(c.MaxBodyBytes), 1},
		{"maxDecompressedBytes", int64(c.MaxDecompressedBytes), 0},
		{"maxBufferedBytes", c.MaxBufferedBytes, int64(c.MaxBodyBytes) + int64(c.MaxDecompressed())},
		{"maxHeaderBytes", int64(c.MaxHeaderBytes), 1024},
		{"maxLineBytes", int64(c.MaxLineBytes), 1024},
		{"maxLabels", int64(c.MaxLabels), 1},
		{"maxLabelBytes", int64(c.MaxLabelBytes), 1},
		{"maxConnections", int64(c.MaxConnections), 1},
		{"maxConnsPerIP", int64(c.MaxConnsPerIP), 0},
	} {
		if f.value < f.min {
			faults = append(faults, fmt.Errorf("%s is %d, but must be at least %d", f.name, f.value, f.min))
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"readTimeout", c.ReadTimeout},
		{"writeTimeout", c.WriteTimeout},
		{"idleTimeout", c.IdleTimeout},
		{"syncTimeout", c.SyncTimeout},
		{"shutdownTimeout", c.ShutdownTimeout},
	} {
		if f.value <= 0 {
			faults = append(faults, fmt.Errorf("%s is %v, but must be more than 0", f.name, f.value))
		}
	}
	if c.Auth != AuthNone && c.Auth != AuthToken {
		faults = append(faults, fmt.Errorf("auth is %q, but must be %s or %s", c.Auth, AuthNone, AuthToken))
	}
	if c.Auth == AuthToken && c.TokenAudience == "" {
		faults = append(faults, errors.New("tokenAudience is empty, but must be what tokens are meant for"))
	}
	faults = append(faults, c.tlsFaults()...)
	for _, name := range c.AllowedHosts {
		if name == "" || strings.ContainsAny(name, "/:*@ ") {
			faults = append(faults, fmt.Errorf("allowedHosts has %q; must be a host's name without a port, such as sluice.test", name))
		}
	}
	return errors.Join(faults...)
}

func (c Config) tlsFaults() (faults []error) {
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		faults = append(faults, errors.New("tlsCertFile: give tlsKeyFile with it, or neither"))
	}
	if c.TLSClientCAFile != "" && c.TLSCertFile == "" {
		faults = append(faults, errors.New("tlsClientCAFile is of no use without tlsCertFile: only over TLS does a client show a certificate"))
	}
	switch {
	case c.TLSClientAuth != listener.ClientAuthRequest && c.TLSClientAuth != listener.ClientAuthRequire:
		faults = append(faults, fmt.Errorf("tlsClientAuth is %q, but must be %s or %s", c.TLSClientAuth, listener.ClientAuthRequest, listener.ClientAuthRequire))
	case c.TLSClientAuth == listener.ClientAuthRequire && c.TLSClientCAFile == "":
		faults = append(faults, errors.New("tlsClientAuth is require, but must be request without tlsClientCAFile"))
	}
	return faults
}

func (c Config) MaxDecompressed() int {
	if c.MaxDecompressedBytes == 0 {
		return c.MaxBodyBytes
	}
	return c.MaxDecompressedBytes
}

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q is not host:port: %w", address, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("address %q has port %q, but must have a number from 0 to 65535", address, port)
	}
	return nil
}
