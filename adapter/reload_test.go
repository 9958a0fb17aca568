package adapter

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
)

// project writes files as the kubelet does for a volume: into a new folder, to which the link
// ..data is switched before the old folder is removed. The files are links through ..data.
func project(t *testing.T, volume, version string, pair keyPair) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	before, _ := os.Readlink(filepath.Join(volume, "..data"))
	must(pair.save(filepath.Join(volume, version)))
	must(os.Symlink(version, filepath.Join(volume, "..data_tmp")))
	must(os.Rename(filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data")))
	if before == "" {
		for _, name := range []string{certFile, keyFile} {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)))
		}
		return
	}
	must(os.RemoveAll(filepath.Join(volume, before)))
}

func TestReplacedCertificateIsServed(t *testing.T) {
	volume := t.TempDir()
	pairs := make([]keyPair, 3)
	for i := range pairs {
		var err error
		if pairs[i], err = generate([]string{"sluice.example"}, time.Now().Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	broken := pairs[1]
	broken.key = pairs[0].key

	project(t, volume, "..2026_01", pairs[0])
	log := new(logtest.Buffer)
	t.Cleanup(func() { routeKlog(slog.New(slog.DiscardHandler)) })
	a := running(t, prepared(t, Parts{Logger: slog.New(slog.NewTextHandler(log, nil))}, anonymousAccess(), func(c *Config) {
		c.CertFile, c.KeyFile = filepath.Join(volume, certFile), filepath.Join(volume, keyFile)
	}))
	a.waitReady(t)
	serves := func(pair keyPair) bool { return a.verified("sluice.example", pair.ca) == nil }
	if !serves(pairs[0]) {
		t.Fatal("the first certificate is not served")
	}
	project(t, volume, "..2026_02", pairs[1])
	within(t, "the second certificate is served", func() bool { return serves(pairs[1]) })

	broken.key = pairs[0].key
	project(t, volume, "..2026_03", broken)
	within(t, "the broken pair is logged", func() bool {
		return strings.Contains(log.String(), "level=ERROR") && strings.Contains(log.String(), "private key does not match")
	})
	if !serves(pairs[1]) {
		t.Error("a broken pair took the place of a good one")
	}
	project(t, volume, "..2026_04", pairs[2])
	within(t, "the third certificate is served", func() bool { return serves(pairs[2]) })
	third, err := tls.X509KeyPair(pairs[2].cert, pairs[2].key)
	must(t, err)
	registry := prometheus.NewRegistry()
	must(t, a.Register(registry))
	want := fmt.Sprintf("# HELP %[1]s Unix time at which the certificate of the metrics APIs expires.\n# TYPE %[1]s gauge\n%[1]s %[2]d\n",
		"sluice_api_certificate_expires_timestamp_seconds", third.Leaf.NotAfter.Unix())
	must(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "sluice_api_certificate_expires_timestamp_seconds"))
}
