package controlplane

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"

	"github.com/sluice-metrics/sluice/e2e/certificate"
)

// forServer issues a certificate for servers on this machine.
func forServer(by *certificate.Authority, name string) (certificate.Pair, error) {
	return by.Issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// forClient issues a client certificate. The API server maps the certificate's organizations to
// groups.
func forClient(by *certificate.Authority, name, user string, groups ...string) (certificate.Pair, error) {
	return by.Issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}
