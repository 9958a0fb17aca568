package adapter

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// verified requests /readyz as a client that trusts only the given authority.
func (a *api) verified(host string, ca []byte) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	_, port, err := net.SplitHostPort(a.Addr().String())
	if err != nil {
		return err
	}
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: host}}
	conn, err := dialer.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func TestClientsCanVerifyTheSelfSignedCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	keep := func(c *Config) { c.CertDir = dir }
	a := start(t, shop(), keep)
	ca, err := os.ReadFile(filepath.Join(dir, caFile))
	must(t, err)
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		if err := a.verified(host, ca); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if err := a.verified("example.com", ca); err == nil {
		t.Error("the certificate is good for example.com")
	}
	if key, err := os.Stat(filepath.Join(dir, keyFile)); err != nil || key.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", key.Mode(), err)
	}
	if err := start(t, shop(), keep).verified("localhost", ca); err != nil {
		t.Errorf("after another start: %v", err)
	}
}

func TestServesTheGivenCertificate(t *testing.T) {
	pair, err := generate([]string{"sluice.example"}, time.Now())
	must(t, err)
	dir := t.TempDir()
	must(t, pair.save(dir))
	a := start(t, shop(), func(c *Config) {
		c.CertFile, c.KeyFile = filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	})
	if err := a.verified("sluice.example", pair.ca); err != nil {
		t.Error(err)
	}
}

func TestKeptCertificateIsMadeAnewInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		hosts := certHosts("10.1.2.3:6443")
		first, err := selfSigned(dir, hosts, time.Now())
		must(t, err)
		time.Sleep(certLifetime - certRenewal - time.Hour)
		if kept, err := selfSigned(dir, hosts, time.Now()); err != nil || !bytes.Equal(kept.cert, first.cert) {
			t.Errorf("made anew too early: %v", err)
		}
		time.Sleep(2 * time.Hour)
		second, err := selfSigned(dir, hosts, time.Now())
		if err != nil || bytes.Equal(second.cert, first.cert) {
			t.Errorf("not made anew: %v", err)
		}
		third, err := selfSigned(dir, append(hosts, "another.example"), time.Now())
		if err != nil || bytes.Equal(third.cert, second.cert) {
			t.Errorf("not made anew for another host: %v", err)
		}
		must(t, os.WriteFile(filepath.Join(dir, keyFile), []byte("torn"), 0o600))
		if fourth, err := selfSigned(dir, hosts, time.Now()); err != nil || bytes.Equal(fourth.cert, third.cert) {
			t.Errorf("not made anew when torn: %v", err)
		}
	})
}

func TestCertHosts(t *testing.T) {
	for address, more := range map[string]string{
		"127.0.0.1:6443": "", "localhost:6443": "", "[::1]:6443": "", ":6443": "", "0.0.0.0:6443": "", "[::]:6443": "",
		"10.1.2.3:6443": "10.1.2.3", "sluice.example:6443": "sluice.example",
	} {
		got := strings.Join(certHosts(address)[3:], ",")
		if got != more {
			t.Errorf("%s: %q, want %q", address, got, more)
		}
	}
}
