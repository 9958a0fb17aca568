package mutualtls

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// Certificates that take long to verify are refused before: many, of large keys, and several of one key, of which package x509
// makes a way of 100 steps.
func TestChainsAreQuickToVerify(t *testing.T) {
	keys := 0
	of := func(key any) *x509.Certificate {
		keys++
		return &x509.Certificate{PublicKey: key, RawSubjectPublicKeyInfo: fmt.Append(nil, "key ", keys)}
	}
	withRSA := func(bits uint, exponent int) *x509.Certificate {
		return of(&rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), bits-1), E: exponent})
	}
	curve := func() *x509.Certificate { return of(&ecdsa.PublicKey{}) }
	twice := curve()
	for want, chain := range map[string][]*x509.Certificate{
		"":                                  {withRSA(4096, 65537), withRSA(2048, 3), curve(), curve()},
		"sent 5 certificates":               {curve(), curve(), curve(), curve(), curve()},
		"RSA key of 4097 bits":              {curve(), withRSA(4097, 65537)},
		"with the exponent 2147483647;":     {withRSA(2048, 1<<31-1)},
		"two certificates of the other end": {twice, curve(), twice},
	} {
		if err := checkChain(chain); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
