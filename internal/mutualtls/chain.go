package mutualtls

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
)

// Bounds of what another end shows of itself, before it is verified. Package x509 tries up to 100 signatures, and takes two
// certificates of one key for different steps of a way, so a client could have it verify for 0.3 s by two certificates of 5 KB.
const (
	maxChain   = 4 // certificates
	maxRSABits = 4096
	maxRSAExp  = 1<<16 + 1
)

// Verify verifies the certificates that another end has sent, its own first. It refuses those that take long.
func Verify(chain []*x509.Certificate, options x509.VerifyOptions) error {
	if err := checkChain(chain); err != nil {
		return err
	}
	options.Intermediates = x509.NewCertPool()
	for _, between := range chain[1:] {
		options.Intermediates.AddCert(between)
	}
	_, err := chain[0].Verify(options)
	return err
}

func checkChain(chain []*x509.Certificate) error {
	if n := len(chain); n > maxChain {
		return fmt.Errorf("the other end sent %d certificates; must be at most %d", n, maxChain)
	}
	for i, c := range chain {
		key, is := c.PublicKey.(*rsa.PublicKey)
		if is && (key.N.BitLen() > maxRSABits || key.E > maxRSAExp) {
			return fmt.Errorf("a certificate of the other end has an RSA key of %d bits with the exponent %d; must have at most %d, and %d",
				key.N.BitLen(), key.E, maxRSABits, maxRSAExp)
		}
		for _, other := range chain[:i] {
			if string(other.RawSubjectPublicKeyInfo) == string(c.RawSubjectPublicKeyInfo) {
				return errors.New("two certificates of the other end have one key; must have a key each")
			}
		}
	}
	return nil
}
