package replicas

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/certificate"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// mesh is a set of replicas whose embedded fabrics connect to each other with mutual TLS.
type mesh []*server.Server

// newMesh prepares replicas. Nothing is started.
func newMesh(t *testing.T, n int) mesh {
	t.Helper()
	m, _, _ := newMeshOf(t, n)
	return m
}

// startMesh starts replicas that know each other.
func startMesh(t *testing.T, n int) mesh {
	t.Helper()
	m := newMesh(t, n)
	m.start(t)
	return m
}

// newMeshOf is newMesh with the authority of the certificates and the addresses of the replicas.
func newMeshOf(t *testing.T, n int) (m mesh, ca authority, addresses []string) {
	t.Helper()
	ca = newAuthority(t)
	for range n {
		addresses = append(addresses, server.FreeAddress(t, "tcp"))
	}
	for i, own := range addresses {
		m = append(m, server.New(t, meshFlags(ca, fmt.Sprint("sluice-", i), own, addresses)...))
	}
	return m, ca, addresses
}

func meshFlags(ca authority, name, listen string, peers []string) []string {
	host, _, err := net.SplitHostPort(listen)
	must(ca.t, err)
	own := ca.issue(name, net.ParseIP(host))
	return []string{
		"--replica-name", name, "--replica-listen", listen, "--replica-peers", strings.Join(peers, ","),
		"--replica-tls-cert-file", own.Certificate, "--replica-tls-key-file", own.Key, "--replica-tls-ca-file", ca.Path,
	}
}

// start starts all replicas and waits until each knows the others.
func (m mesh) start(t *testing.T) {
	t.Helper()
	for _, s := range m {
		s.Start()
	}
	m.joined(t, len(m)-1)
}

// joined waits until every running replica has so many other origins.
func (m mesh) joined(t *testing.T, others int) {
	t.Helper()
	for _, s := range m {
		server.Within(t, func() string {
			if got := s.Metrics()["sluice_replica_origins"]; got != float64(others) {
				return fmt.Sprintf("a replica knows %v other origins, want %d", got, others)
			}
			return ""
		})
	}
}

// authority issues the certificates of a mesh.
type authority struct {
	*certificate.Authority
	t *testing.T
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	ca, err := certificate.New(t.TempDir(), "ca")
	must(t, err)
	return authority{ca, t}
}

// issue writes a certificate of a replica at an address.
func (ca authority) issue(name string, at net.IP) certificate.Pair {
	ca.t.Helper()
	return ca.issueAs(name, &x509.Certificate{DNSNames: []string{name}, IPAddresses: []net.IP{at}})
}

// issueAs is issue for a certificate that need not be a replica's.
func (ca authority) issueAs(name string, template *x509.Certificate) certificate.Pair {
	ca.t.Helper()
	template.Subject = pkix.Name{CommonName: name}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	pair, err := ca.Issue(name, template)
	must(ca.t, err)
	return pair
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
