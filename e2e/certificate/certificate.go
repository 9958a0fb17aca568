// Package certificate makes authorities, certificates and keys for tests.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Pair is the paths of a certificate and the private key.
type Pair struct {
	Certificate, Key string
}

// Authority signs certificates.
type Authority struct {
	// Path is the file of the authority's own certificate.
	Path        string
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// New makes an authority that writes its files to a folder.
func New(folder, name string) (*Authority, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &Authority{folder: folder, certificate: template, key: key}
	der, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	a.Path, err = WritePEM(folder, name+".crt", "CERTIFICATE", der)
	if err == nil {
		a.certificate, err = x509.ParseCertificate(der)
	}
	return a, err
}

// Issue writes a certificate and a key to name.crt and name.key, which it replaces. A certificate
// without an end is valid for a day.
func (a *Authority) Issue(name string, template *x509.Certificate) (Pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	der, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return Pair{}, err
	}
	var p Pair
	if p.Certificate, err = WritePEM(a.folder, name+".crt", "CERTIFICATE", der); err != nil {
		return Pair{}, err
	}
	p.Key, err = WriteKey(a.folder, name+".key", key)
	return p, err
}

func (a *Authority) sign(template *x509.Certificate, public *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.SerialNumber, template.NotBefore = serial, time.Now().Add(-time.Minute)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	return x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
}

// WriteKey writes a private key and returns the path.
func WriteKey(folder, name string, key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	return WritePEM(folder, name, "EC PRIVATE KEY", der)
}

// WritePEM writes one block of PEM and returns the path.
func WritePEM(folder, name, kind string, der []byte) (string, error) {
	path := filepath.Join(folder, name)
	return path, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
