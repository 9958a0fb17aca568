package main

import (
	"context"
	"crypto/tls"
	"fmt"
)

// checkCertificate finds what is wrong with the serving certificate before any port is opened. The adapter reads it again,
// now and whenever it changes.
func (p *dataPath) checkCertificate(context.Context) error {
	file, key := p.cfg.api.CertFile, p.cfg.api.KeyFile
	if file == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(file, key); err != nil {
		return fmt.Errorf("--api-cert-file %s, --api-key-file %s: %w; want a certificate and its key, PEM", file, key, err)
	}
	return nil
}
