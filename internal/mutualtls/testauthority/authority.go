// Package testauthority signs certificates for tests of connections with certificates at both ends.
package testauthority

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
}

// New makes an authority that is valid for an hour.
func New(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &Authority{cert, der, key}
}

// Leaf describes a certificate; the zero value is that of a server and client on loopback.
type Leaf struct {
	Host   string // a name or an address; empty: 127.0.0.1
	Usages []x509.ExtKeyUsage
	Ended  bool
}

// Sign writes certificate, key and authority to dir and returns their paths.
func (a *Authority) Sign(t testing.TB, dir string, l Leaf) (cert, key, ca string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if l.Usages == nil {
		l.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test replica"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: l.Usages,
	}
	if l.Ended {
		template.NotAfter = time.Now().Add(-time.Minute)
	}
	if address := net.ParseIP(cmp.Or(l.Host, "127.0.0.1")); address != nil {
		template.IPAddresses = []net.IP{address}
	} else {
		template.DNSNames = []string{l.Host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(dir, name)
		block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
		if err := os.WriteFile(path, block, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("tls.crt", "CERTIFICATE", der), write("tls.key", "PRIVATE KEY", keyDER), write("ca.crt",
		"CERTIFICATE", a.der)
}

// WantBoundedHandshakes checks that a server refuses a handshake of more than 32 KiB. Go would keep 256 KiB of each.
func WantBoundedHandshakes(t testing.TB, protocol string, dial func() (net.Conn, error)) {
	t.Helper()
	for size, fits := range map[int]bool{30 << 10: true, 33 << 10: false} {
		offered := []string{protocol}
		for ; size > 0; size -= 256 {
			offered = append(offered, strings.Repeat("a", 255)) // and a byte for the length
		}
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: offered}).Handshake()
		if (err == nil) != fits {
			t.Errorf("a hello of %d protocols: %v, want it to be answered: %t", len(offered), err, fits)
		}
		_ = conn.Close()
	}
}
