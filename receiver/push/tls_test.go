package push

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
)

// authority signs certificates, and keeps them in a folder.
type authority struct {
	t      *testing.T
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	path   string
	memory *memory // of the server that is encrypted
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, folder: t.TempDir()}
	a.cert, a.key = a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, time.Hour)
	a.path = a.write("ca.crt", "CERTIFICATE", a.cert.Raw)
	return a
}

func (a *authority) issue(template *x509.Certificate, life time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(life)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	must(a.t, err)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.folder, name)
	must(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// serving writes a certificate of this machine under a name, and its key.
func (a *authority) serving(commonName string) (cert, key string) {
	a.t.Helper()
	c, k := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: commonName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, time.Hour)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	must(a.t, err)
	return a.write("tls.crt", "CERTIFICATE", c.Raw), a.write("tls.key", "PRIVATE KEY", der)
}

func (a *authority) client(commonName string, life time.Duration) tls.Certificate {
	a.t.Helper()
	c, k := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: commonName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, life)
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: k}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// encrypted makes the port TLS, in memory.
func (a *authority) encrypted(c *Config, p *Parts) {
	inMemory(c, p)
	a.memory = p.Listener.(*memory)
	c.TLSCertFile, c.TLSKeyFile = a.serving("sluice")
}

// handshake opens a connection with a configuration of a client.
func (a *authority) handshake(config *tls.Config) error {
	a.t.Helper()
	c, err := a.memory.dial()
	must(a.t, err)
	a.t.Cleanup(func() { c.Close() })
	config.ServerName = "127.0.0.1"
	if err = tls.Client(c, config).Handshake(); err != nil {
		_ = c.Close()
	}
	return err
}

// through is a client of one connection at a time.
func (a *authority) through(certificates ...tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool(), Certificates: certificates}, MaxConnsPerHost: 1}
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return a.memory.dial() }
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (h *harness) over(client *http.Client, method, path, body string) (*http.Response, string) {
	h.Helper()
	req, err := http.NewRequest(method, "https://"+h.server.Addr().String()+path, strings.NewReader(body))
	must(h, err)
	res, err := client.Do(req)
	if err != nil {
		h.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(h, err)
	h.checkAnswer(res, string(text))
	return res, string(text)
}

func TestTLS(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a := newAuthority(t)
		h := start(t, a.encrypted, func(c *Config, _ *Parts) { c.MaxBodyBytes = 64 << 10 })
		client := a.through()
		const path = "/v1/namespaces/shop/external/a"
		for range 3 { // over one connection
			if res, text := h.over(client, "POST", path, "1"); res.StatusCode != 200 || res.TLS.Version < tls.VersionTLS12 || res.ProtoMajor != 1 {
				t.Errorf("%d %s", res.StatusCode, text)
			}
		}
		if res, text := h.over(client, "GET", path, ""); res.StatusCode != 200 || !strings.Contains(text, `"value":3`) {
			t.Errorf("%d %s", res.StatusCode, text)
		}
		if n := h.server.Connections(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		// An answer that comes before the body is read arrives.
		if res, text := h.over(client, "POST", path, strings.Repeat("1", 512<<10)); res.StatusCode != 413 {
			t.Errorf("%d %s", res.StatusCode, text)
		}
		for name, config := range map[string]*tls.Config{
			"TLS 1.1":          {MaxVersion: tls.VersionTLS11},
			"HTTP/2":           {NextProtos: []string{"h2"}},
			"another's client": {RootCAs: newAuthority(t).pool()},
		} {
			if config.RootCAs == nil {
				config.RootCAs = a.pool()
			}
			if a.handshake(config) == nil {
				t.Errorf("%s: served", name)
			}
		}
		synctest.Wait()
		if n := h.metric("sluice_http_tls_handshake_errors_total"); n != 3 {
			t.Errorf("%v handshakes failed, want 3", n)
		}
	})
}

// A client that speaks plain HTTP to the TLS port gets an answer that says so.
func TestPlainHTTPToTLS(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h := start(t, newAuthority(t).encrypted)
		for _, first := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST /v1/statsd HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na:1", "DELETE /v1/external/a HTTP/1.1\r\nHost: a\r\n\r\n"} {
			c := h.dial()
			write(t, c, first)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			must(t, err)
			text, _ := io.ReadAll(res.Body)
			if res.StatusCode != 400 || !strings.Contains(string(text), "this port is TLS: say https://, not http://") {
				t.Errorf("%d %s", res.StatusCode, text)
			}
		}
		if !strings.Contains(h.logs.String(), "speaks plain HTTP, but this port is TLS") {
			t.Errorf("the log says nothing: %s", h.logs)
		}
		c := h.dial()
		write(t, c, "\x00\x01\x02 nonsense")
		if text, _ := io.ReadAll(c); strings.Contains(string(text), "HTTP") {
			t.Errorf("nonsense is answered %q", text)
		}
	})
}

// A handshake that does not come on is cut off, and its place given back.
func TestSlowHandshake(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		for _, limit := range []time.Duration{time.Second, time.Minute} {
			h := start(t, newAuthority(t).encrypted, func(c *Config, _ *Parts) { c.ReadTimeout = limit })
			silent, slow := h.dial(), h.dial()
			write(t, slow, "\x16\x03\x01")
			began := time.Now()
			for _, c := range []net.Conn{silent, slow} {
				n, _ := io.Copy(io.Discard, c)
				if took := time.Since(began); n > 0 || took != min(limit, connlimit.HandshakeTimeout) {
					t.Errorf("%d bytes after %v", n, took)
				}
			}
			synctest.Wait()
			if n := h.server.Connections(); n != 0 {
				t.Errorf("%d places are still taken", n)
			}
		}
	})
}

// Go's TLS would keep the first 256 KiB of a stranger's handshake, on each connection.
func TestHandshakesHaveABound(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a := newAuthority(t)
		start(t, a.encrypted)
		testauthority.WantBoundedHandshakes(t, "http/1.1", a.memory.dial)
	})
}

// The caps on connections are the same over TLS.
func TestTLSConnectionsAreCapped(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a := newAuthority(t)
		h := start(t, a.encrypted, func(c *Config, _ *Parts) { c.MaxConnsPerIP = 2 })
		config := &tls.Config{RootCAs: a.pool()}
		silent := h.dial()
		for range 2 {
			must(t, a.handshake(config))
		}
		if n, err := io.Copy(io.Discard, silent); n > 0 || err != nil {
			t.Errorf("%d bytes and %v for the connection that yielded", n, err)
		}
	})
}

// A new certificate is shown to who comes next; who is there stays; one that is broken changes
// nothing.
func TestCertificateIsReadAgain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a := newAuthority(t)
		h := start(t, a.encrypted)
		first := a.through()
		shown := func(client *http.Client) string {
			t.Helper()
			res, _ := h.over(client, "GET", "/v1", "")
			return res.TLS.PeerCertificates[0].Subject.CommonName
		}
		if got := shown(first); got != "sluice" {
			t.Error(got)
		}
		load := func(wantChanged, wantFault bool) {
			t.Helper()
			if changed, err := h.server.Certificates.Load(); changed != wantChanged || (err != nil) != wantFault {
				t.Errorf("%v, %v", changed, err)
			}
		}
		load(false, false)
		a.serving("renewed")
		load(true, false)
		if got := shown(a.through()); got != "renewed" {
			t.Error(got)
		}
		if got := shown(first); got != "sluice" || h.server.Connections() != 2 {
			t.Errorf("the connection that was open shows %s; %d are open", got, h.server.Connections())
		}
		_, key := a.serving("broken")
		must(t, os.WriteFile(key, []byte("nonsense"), 0o600))
		load(false, true)
		if got := shown(a.through()); got != "renewed" {
			t.Error(got)
		}
	})
}

// A client certificate is a credential: its name has the rights that were granted to it.
func TestClientCertificates(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		a, believed := newAuthority(t), newAuthority(t)
		mutual := func(mode string) func(*Config, *Parts) {
			return func(c *Config, p *Parts) {
				a.encrypted(c, p)
				c.TLSClientCAFile, c.TLSClientAuth = believed.path, mode
			}
		}
		h, town := startTown(t, mutual(listener.ClientAuthRequest))
		town.rights[metric.Right{Verb: metric.Create, Namespace: "bank"}] = true
		const bank, mill = "/v1/namespaces/bank/external/a", "/v1/namespaces/mill/external/a"
		anna := a.through(believed.client("anna", time.Hour))
		for _, c := range []struct {
			name   string
			client *http.Client
			path   string
			status int
			says   string
		}{
			{"granted", anna, bank, 200, `"applied":1`},
			{"not granted", anna, mill, 403, `User \"sluice:cert:anna\" cannot create`},
			{"no certificate", a.through(), bank, 401, "no credential was sent"},
			{"no name", a.through(believed.client("", time.Hour)), bank, 401, "has no common name"},
		} {
			if res, text := h.over(c.client, "PUT", c.path, "1"); res.StatusCode != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%s: %d %s", c.name, res.StatusCode, text)
			}
		}
		for name, certificate := range map[string]tls.Certificate{
			"another authority's": a.client("anna", time.Hour),
			"one that is over":    believed.client("anna", -time.Hour),
		} {
			if _, err := a.through(certificate).Get("https://" + h.server.Addr().String() + "/v1"); err == nil {
				t.Errorf("%s: served", name)
			}
		}
		// One that ends while its connection is open is no good any more.
		soon := a.through(believed.client("anna", time.Minute))
		if res, text := h.over(soon, "PUT", bank, "1"); res.StatusCode != 200 {
			t.Errorf("%d %s", res.StatusCode, text)
		}
		time.Sleep(time.Minute + time.Second)
		if res, text := h.over(soon, "PUT", bank, "1"); res.StatusCode != 401 || !strings.Contains(text, "the client certificate expired") {
			t.Errorf("%d %s", res.StatusCode, text)
		}

		h = start(t, mutual(listener.ClientAuthRequire))
		if _, err := a.through().Get("https://" + h.server.Addr().String() + "/v1"); err == nil {
			t.Error("served without a certificate")
		}
		if res, text := h.over(a.through(believed.client("anna", time.Hour)), "PUT", mill, "1"); res.StatusCode != 200 {
			t.Errorf("without a cluster who has one may all: %d %s", res.StatusCode, text)
		}
	})
}

// Names of settings that do not fit together are told all at once.
func TestTLSSettings(t *testing.T) {
	c := DefaultConfig()
	c.TLSKeyFile, c.TLSClientCAFile, c.TLSClientAuth = "a", "b", "maybe"
	err := c.Validate()
	for _, want := range []string{"TLSKeyFile is set without TLSCertFile", "TLSClientCAFile is set without TLSCertFile", `TLSClientAuth is "maybe"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c = DefaultConfig()
	c.TLSCertFile, c.TLSKeyFile, c.Address = "/nonexistent", "/nonexistent", "127.0.0.1:0"
	if _, err := New(c, Parts{}); err == nil || !strings.Contains(err.Error(), "TLSCertFile cannot be read: open /nonexistent") {
		t.Error(err)
	}
}
