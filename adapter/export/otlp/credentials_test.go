package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
)

// demanding is a Collector with a certificate of an authority of its own, which wants a client
// certificate of that authority and a token.
func demanding(t *testing.T, token *string) (server *httptest.Server, authority *testauthority.Authority) {
	t.Helper()
	authority = testauthority.New(t)
	cert, key, ca := authority.Sign(t, t.TempDir(), testauthority.Leaf{})
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	pem, err := os.ReadFile(ca)
	must(t, err)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(pem)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != *token || r.Header.Get("X-Scope-Orgid") != "shop, one" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, authority
}

// TestCredentials: a Collector that wants a certificate and a token gets both, and nothing is sent to
// one of another authority. Files that change are read again.
func TestCredentials(t *testing.T) {
	token := "Bearer first"
	server, authority := demanding(t, &token)
	dir := t.TempDir()
	cert, key, ca := authority.Sign(t, dir, testauthority.Leaf{})
	headers := filepath.Join(dir, "headers")
	write := func(path, text string) {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(headers, "authorization=Bearer%20first,X-Scope-OrgID=shop%2C one\n")
	whole := Config{URL: server.URL + "/v1/metrics", Interval: time.Second, CAFile: ca, CertFile: cert, KeyFile: key, HeadersFile: headers}
	delivers := func(c Config) bool {
		e := mustNew(c, families())
		e.access.client.Timeout = time.Minute
		must(t, e.encode(newBatch(nil)))
		_, err := e.post(t.Context(), nil)
		return err == nil
	}
	_, _, foreign := testauthority.New(t).Sign(t, t.TempDir(), testauthority.Leaf{})
	for name, c := range map[string]struct {
		change func(*Config)
		want   bool
	}{
		"all":                       {func(*Config) {}, true},
		"authorities of the system": {func(c *Config) { c.CAFile = "" }, false},
		"another authority":         {func(c *Config) { c.CAFile = foreign }, false},
		"no certificate":            {func(c *Config) { c.CertFile, c.KeyFile = "", "" }, false},
		"no headers":                {func(c *Config) { c.HeadersFile = "" }, false},
	} {
		cfg := whole
		c.change(&cfg)
		if got := delivers(cfg); got != c.want {
			t.Errorf("%s: delivered %v, want %v", name, got, c.want)
		}
	}

	e := mustNew(whole, families())
	token = "Bearer second"
	write(headers, "authorization=Bearer%20second\nx-scope-orgid=shop%2C%20one\n")
	authority.Sign(t, dir, testauthority.Leaf{})
	if e.export(t.Context()); e.sent.Load() != 4 || e.lost.Load() != 0 {
		t.Errorf("after the files changed: %d sent, %d lost", e.sent.Load(), e.lost.Load())
	}
	write(headers, "not a header")
	if e.export(t.Context()); e.sent.Load() != 8 {
		t.Errorf("after a fault in the file, the former headers are not used: %d sent", e.sent.Load())
	}
}

func TestHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"a=1":                         "A: 1\r\n",
		"a=1, b = 2 ,\n\nc=%E2%82%AC": "A: 1\r\nB: 2\r\nC: €\r\n",
		"a=b=c":                       "A: b=c\r\n",
		"a=Basic dXNlcg==":            "A: Basic dXNlcg==\r\n",
	} {
		headers, err := parseHeaders(text)
		var got strings.Builder
		if err == nil {
			err = headers.Write(&got)
		}
		if err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, got.String(), err, want)
		}
	}
	for text, says := range map[string]string{
		"a=1,secret": "in place 2", "=secret": "in place 1", "a b=secret": "in place 1", "a=secret%0Ab": "invalid value of a",
		"a=secret%zz": "invalid value of a", "content-type=secret": "the export sets itself",
	} {
		if _, err := parseHeaders(text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

func TestFilesOfConfig(t *testing.T) {
	for says, c := range map[string]Config{
		"":                             {URL: "https://c/v1/metrics", CAFile: "a", CertFile: "b", KeyFile: "c", HeadersFile: "d"},
		"CAFile is set, but URL is":    {CAFile: "a"},
		"CAFile is set, but URL is no": {URL: "http://c/", CAFile: "a"},
		"must be set together with":    {URL: "https://c/", CertFile: "a"},
		"HeadersFile is set, but URL":  {HeadersFile: "a"},
	} {
		c.Interval = time.Second
		if err := c.Validate(); says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%+v: %v; want %q", c, err, says)
		}
	}
	if err := (Config{URL: "http://c/", HeadersFile: "a", Interval: time.Second}).Validate(); err != nil {
		t.Errorf("headers without TLS, as to a Collector in the same pod: %v", err)
	}
	if _, err := New(Config{URL: "https://c/", CAFile: "/does/not/exist", Interval: time.Second}, nil, nil, nil); err == nil || !strings.Contains(err.Error(), "CAFile cannot be read") {
		t.Errorf("a file that is missing: %v", err)
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
