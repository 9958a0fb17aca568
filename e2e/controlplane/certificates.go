package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pair is the paths of a certificate and the private key.
type pair struct {
	certificate, key string
}

// authority signs certificates.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	path        string
}

func newAuthority(folder, name string) (*authority, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{folder: folder, certificate: template, key: key}
	der, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	a.path, err = writePEM(folder, name+".crt", "CERTIFICATE", der)
	if err == nil {
		a.certificate, err = x509.ParseCertificate(der)
	}
	return a, err
}

// forServer issues a certificate for servers on this machine.
func (a *authority) forServer(name string) (pair, error) {
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// forClient issues a client certificate. The API server maps the certificate's organizations to
// groups.
func (a *authority) forClient(name, user string, groups ...string) (pair, error) {
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(name string, template *x509.Certificate) (pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	der, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return pair{}, err
	}
	var p pair
	if p.certificate, err = writePEM(a.folder, name+".crt", "CERTIFICATE", der); err != nil {
		return pair{}, err
	}
	p.key, err = writeKey(a.folder, name+".key", key)
	return p, err
}

func (a *authority) sign(template *x509.Certificate, public *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(24*time.Hour)
	return x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
}

func writeKey(folder, name string, key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	return writePEM(folder, name, "EC PRIVATE KEY", der)
}

func writePEM(folder, name, kind string, der []byte) (string, error) {
	path := filepath.Join(folder, name)
	return path, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
