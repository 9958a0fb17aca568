package natsbus

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/sluice-metrics/sluice/internal/mutualtls"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
)

// A replica hears nobody whose certificate is not that of a replica, and says why.
func TestForeignCertificates(t *testing.T) {
	t.Parallel()
	ca := testauthority.New(t)
	for _, c := range []struct {
		name string
		by   *testauthority.Authority
		leaf testauthority.Leaf
		want string
	}{
		{"another authority", testauthority.New(t), testauthority.Leaf{Host: host}, "unknown authority"},
		{"another host", ca, testauthority.Leaf{Host: "web.example"}, "must name a host of the peers"},
		{"expired", ca, testauthority.Leaf{Host: host, Ended: true}, "has expired"},
		{"for code", ca, testauthority.Leaf{Host: host, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}, "incompatible key usage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began, all := time.Now(), peers(t, 2, ca)
			all[1].CertFile, all[1].KeyFile, _ = c.by.Sign(t, t.TempDir(), c.leaf)
			a, b := open(t, all[0]), open(t, all[1])
			apart(t, a, b, func() bool { return a.logs(c.want) && a.secured.Refused() > 0 })
			if lines := a.log.Count("\n") - a.log.Count("level=DEBUG"); lines > 6*(1+int(time.Since(began)/logInterval)) {
				t.Errorf("%d log lines:\n%s", lines, a.log)
			}
		})
	}
}

// dialRoute begins a connection as another replica would, up to the upgrade to TLS.
func dialRoute(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

func TestNoCertificate(t *testing.T) {
	t.Parallel()
	a := open(t, peers(t, 1, testauthority.New(t))[0])
	conn := tls.Client(dialRoute(t, a.Addr().String()), &tls.Config{InsecureSkipVerify: true})
	if err := conn.Handshake(); err == nil { // with TLS 1.3 the client ends its part first
		_, err = io.ReadAll(conn)
		if err == nil {
			t.Error("a client without a certificate was served")
		}
	}
	eventually(t, "the refusal is counted", func() bool { return a.secured.Refused() == 1 })
	if !a.logs(mutualtls.ErrNoCertificate.Error()) {
		t.Errorf("the log does not say why: %s", a.log)
	}
}

// Neither a replica that speaks no TLS nor a client of NATS gets in.
func TestPlainText(t *testing.T) {
	t.Parallel()
	all := peers(t, 2, testauthority.New(t))
	all[1].CertFile, all[1].KeyFile, all[1].CAFile, all[1].Insecure = "", "", "", true
	a, b := open(t, all[0]), open(t, all[1])
	apart(t, a, b, func() bool { return a.logs("TLS Handshake Failure") && b.logs("Authentication Failure") })
	if conn, err := nats.Connect("nats://"+a.Addr().String(), nats.MaxReconnects(0)); err == nil {
		conn.Close()
		t.Error("a client of NATS got in")
	}
	conn := dialRoute(t, a.Addr().String())
	if _, err := conn.Write([]byte("CONNECT {}\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn)
	if strings.Contains(string(answer), "INFO") || strings.Contains(string(answer), "PONG") {
		t.Errorf("answered %q", answer)
	}
}

// Both the certificate and the authority are replaced while the replicas run.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	all := peers(t, 2, testauthority.New(t))
	a, b := open(t, all[0]), open(t, all[1])
	hears(t, a, b)
	b.end()
	next := testauthority.New(t)
	for _, cfg := range all {
		replace(t, next, cfg, testauthority.Leaf{Host: host})
	}
	time.Sleep(mutualtls.RereadAfter)
	b = open(t, all[1])
	hears(t, a, b)
	if !a.logs("reloaded the certificate") {
		t.Errorf("the log does not say that: %s", a.log)
	}
}

// A scrape reads the files again: there may be no handshake for months, and an alert looks at the
// date. What is wrong with the files at a moment, as while they are replaced, doesn't keep that from the log.
func TestExpiryFollowsTheFile(t *testing.T) {
	t.Parallel()
	cfg := peers(t, 1, testauthority.New(t))[0]
	a := open(t, cfg)
	must(t, os.WriteFile(cfg.KeyFile, []byte("half of a key"), 0o600))
	time.Sleep(mutualtls.RereadAfter)
	if gauge(t, a, expiresDesc); !a.logs("cannot reload") {
		t.Errorf("the log does not say that: %s", a.log)
	}
	replace(t, testauthority.New(t), cfg, testauthority.Leaf{Host: host, Ended: true})
	time.Sleep(mutualtls.RereadAfter)
	if left := time.Until(time.Unix(int64(gauge(t, a, expiresDesc)), 0)); left > 0 {
		t.Errorf("the certificate expires in %v, want in the past", left)
	}
	if !a.logs("has expired") {
		t.Errorf("the log does not say that: %s", a.log)
	}
}

// gauge collects a gauge of the bus.
func gauge(t *testing.T, m *member, desc *prometheus.Desc) float64 {
	t.Helper()
	ch := make(chan prometheus.Metric, 16)
	m.Collect(ch)
	close(ch)
	for metric := range ch {
		if metric.Desc() == desc {
			var value dto.Metric
			must(t, metric.Write(&value))
			return value.GetGauge().GetValue()
		}
	}
	t.Fatal("not collected")
	return 0
}

// replace replaces the files of a configuration.
func replace(t *testing.T, ca *testauthority.Authority, cfg Config, leaf testauthority.Leaf) {
	t.Helper()
	cert, key, authorities := ca.Sign(t, t.TempDir(), leaf)
	for _, file := range [][2]string{{cert, cfg.CertFile}, {key, cfg.KeyFile}, {authorities, cfg.CAFile}} {
		must(t, os.Rename(file[0], file[1]))
	}
}

// A certificate that cannot be read leaves the last one in use.
func TestDamagedCertificateFile(t *testing.T) {
	t.Parallel()
	all := peers(t, 2, testauthority.New(t))
	a := open(t, all[0])
	must(t, os.WriteFile(all[0].KeyFile, []byte("no key"), 0o600))
	time.Sleep(mutualtls.RereadAfter)
	hears(t, a, open(t, all[1]))
	if !a.logs("cannot reload the certificate") {
		t.Errorf("the log does not say that: %s", a.log)
	}
}
