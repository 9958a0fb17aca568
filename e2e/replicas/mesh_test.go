package replicas

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/loopback"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// mesh is a set of replicas whose embedded fabrics connect to each other with mutual TLS.
type mesh []*server.Server

// newMesh prepares replicas. Nothing is started.
func newMesh(t *testing.T, n int) mesh {
	t.Helper()
	ca := newAuthority(t)
	var addresses []string
	for range n {
		addresses = append(addresses, freePort(t))
	}
	var m mesh
	for i := range n {
		m = append(m, server.New(t, meshFlags(ca, fmt.Sprint("sluice-", i), addresses[i], addresses)...))
	}
	return m
}

func meshFlags(ca *authority, name, listen string, peers []string) []string {
	cert, key := ca.issue(name)
	return []string{
		"--replica-name", name, "--replica-listen", listen, "--replica-peers", strings.Join(peers, ","),
		"--replica-tls-cert-file", cert, "--replica-tls-key-file", key, "--replica-tls-ca-file", ca.file,
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
		eventually(t, 20*time.Second, func() string {
			if got := s.Metrics()["sluice_replica_origins"]; got != float64(others) {
				return fmt.Sprintf("a replica knows %v other origins, want %d", got, others)
			}
			return ""
		})
	}
}

// eventually repeats a check until it returns "", and otherwise fails with the last result.
func eventually(t *testing.T, within time.Duration, check func() (complaint string)) {
	t.Helper()
	complaint := ""
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if complaint = check(); complaint == "" {
			return
		}
	}
	t.Fatal(complaint)
}

func freePort(t *testing.T) string {
	t.Helper()
	address, err := loopback.Free("tcp")
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// authority issues the certificates of a mesh.
type authority struct {
	t    *testing.T
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.crt")}
	der, key := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "replicas"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)})
	ca.cert, ca.key = mustParse(t, der), key
	writePEM(t, ca.file, "CERTIFICATE", der)
	return ca
}

// issue writes a certificate for loopback and returns the files of certificate and key.
func (ca *authority) issue(name string) (cert, key string) {
	ca.t.Helper()
	der, private := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, NotAfter: time.Now().Add(time.Hour)})
	folder := ca.t.TempDir()
	cert, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	writePEM(ca.t, cert, "CERTIFICATE", der)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		ca.t.Fatal(err)
	}
	writePEM(ca.t, key, "PRIVATE KEY", secret)
	return cert, key
}

// sign signs with the authority's key, or, for the authority itself, with the new key.
func (ca *authority) sign(template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour)
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		ca.t.Fatal(err)
	}
	return der, key
}

func mustParse(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
