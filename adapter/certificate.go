package adapter

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/internal/durable"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// The files of Config.CertDir.
const (
	caFile   = "ca.crt"
	certFile = "tls.crt"
	keyFile  = "tls.key"
)

const (
	// certLifetime is below the 825 days that some TLS clients accept.
	certLifetime = 2 * 365 * 24 * time.Hour
	// certRenewal is how long before its expiry a stored certificate is replaced, at the start.
	certRenewal = certLifetime / 2
)

// keyPair is a serving certificate in PEM with the authority that signed it.
type keyPair struct{ ca, cert, key []byte }

// selfSigned returns the certificate in dir if it is still valid, else a new one that it saves
// there. An empty dir saves nothing. An error together with a certificate means that it could not
// be saved.
func selfSigned(dir string, hosts []string, now time.Time) (keyPair, error) {
	if dir == "" {
		return generate(hosts, now)
	}
	if kept, err := loadPair(dir); err == nil && kept.valid(hosts, now) {
		return kept, nil
	}
	pair, err := generate(hosts, now)
	if err != nil {
		return keyPair{}, err
	}
	if err := pair.save(dir); err != nil {
		return pair, fmt.Errorf("save it in %s: %w", dir, err)
	}
	return pair, nil
}

func loadPair(dir string) (pair keyPair, err error) {
	for _, file := range pair.files() {
		if *file.content, err = os.ReadFile(filepath.Join(dir, file.name)); err != nil {
			return keyPair{}, err
		}
	}
	return pair, nil
}

func (p *keyPair) save(dir string) error {
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, file := range p.files() {
		if err := durable.WriteFile(filepath.Join(dir, file.name), *file.content, file.mode); err != nil {
			return err
		}
	}
	return nil
}

type pairFile struct {
	name    string
	mode    os.FileMode
	content *[]byte
}

func (p *keyPair) files() []pairFile {
	return []pairFile{{caFile, 0o644, &p.ca}, {certFile, 0o644, &p.cert}, {keyFile, 0o600, &p.key}}
}

// valid reports whether the pair is complete, signed by its authority, for all hosts, and long
// enough.
func (p *keyPair) valid(hosts []string, now time.Time) bool {
	pair, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.ca) {
		return false
	}
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host,
			CurrentTime: now}); err != nil {
			return false
		}
	}
	return now.Add(certRenewal).Before(pair.Leaf.NotAfter)
}

// generate makes an authority, signs one serving certificate with it and forgets the authority's
// key, so nothing else can be signed with it.
func generate(hosts []string, now time.Time) (keyPair, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	ca := template("sluice self-signed CA", now)
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	leaf := template("sluice", now)
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return keyPair{}, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return keyPair{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{
		ca:   pemOf("CERTIFICATE", caDER),
		cert: bytes.Join([][]byte{pemOf("CERTIFICATE", leafDER), pemOf("CERTIFICATE", caDER)}, nil),
		key:  pemOf("PRIVATE KEY", keyDER),
	}, nil
}

func template(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour), // a client's clock may be behind
		NotAfter:     now.Add(certLifetime),
	}
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// certHosts are the names of the certificate: loopback, and the address listened on if it names
// one.
func certHosts(address string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" || host == "localhost" {
		return hosts
	}
	if ip := net.ParseIP(host); ip != nil &&
		(ip.IsUnspecified() || ip.Equal(net.IPv6loopback) || ip.String() == "127.0.0.1") {
		return hosts
	}
	return append(hosts, host)
}

func servingCertificate(cfg Config, logger *slog.Logger) (dynamiccertificates.CertKeyContentProvider, error) {
	if cfg.CertFile != "" {
		files, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, config.NewFault("CertFile", "cannot be read with %s: %w", config.Field("KeyFile"), err)
		}
		return files, nil
	}
	pair, err := selfSigned(cfg.CertDir, certHosts(cfg.Address), time.Now())
	switch {
	case durable.IsFull(err):
		logger.Warn("the self-signed certificate was not saved, because the disk is full; the next start makes another one; free space, then restart",
			"error", err)
	case err != nil:
		return nil, fmt.Errorf("make a serving certificate: %w", err)
	case cfg.CertDir != "":
		logger.Info("serving with a self-signed certificate", "ca", filepath.Join(cfg.CertDir, caFile))
	}
	return dynamiccertificates.NewStaticCertKeyContent("self-signed", pair.cert, pair.key)
}

// sharedCertificate is the port's certificate for another port of the process. It parses anew what
// was reloaded.
type sharedCertificate struct {
	from dynamiccertificates.CertKeyContentProvider

	mu        sync.Mutex // guards the fields below
	cert, key string
	parsed    *tls.Certificate
}

func (c *sharedCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, key := c.from.CurrentCertKeyContent()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || c.cert != string(cert) || c.key != string(key) {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.cert, c.key, c.parsed = string(cert), string(key), &pair
	}
	return c.parsed, nil
}

// expires is the end of the certificate, in Unix seconds; 0: it cannot be used.
func (c *sharedCertificate) expires() float64 {
	pair, err := c.get(nil)
	if err != nil {
		return 0
	}
	return float64(pair.Leaf.NotAfter.Unix())
}

// TLS returns a configuration with the certificate of the metrics APIs, for another port.
func (s *Server) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: (&sharedCertificate{from: s.certificate}).get}
}
