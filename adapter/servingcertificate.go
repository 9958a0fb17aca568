package adapter

import (
	"crypto/tls"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

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

// TLS returns a configuration with the certificate of the metrics APIs, for another port.
func (s *Server) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: (&sharedCertificate{from: s.certificate}).get}
}
