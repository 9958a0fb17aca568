// Package scraper runs a Prometheus that scrapes a server under test.
package scraper

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/child"
	"github.com/sluice-metrics/sluice/e2e/loopback"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// Prometheus is a running one, such as Debian's.
type Prometheus struct {
	t       *testing.T
	address string
}

// Start runs a Prometheus until the end of the test. The test is skipped where there is
// no Prometheus.
func Start(t *testing.T, config string, flags ...string) *Prometheus {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("skipped: prometheus is not installed")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := loopback.Free("tcp")
	if err != nil {
		t.Fatal(err)
	}
	said := new(strings.Builder)
	cmd := exec.Command(binary, append(flags, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address)...)
	cmd.Stdout, cmd.Stderr = said, said
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.Kill(); t.Failed() {
			t.Log("prometheus said\n", said)
		}
	})
	return &Prometheus{t, address}
}

// Address is where it answers, as host:port.
func (p *Prometheus) Address() string { return p.address }

// Value is the value of a query with one result, and whether there is one.
func (p *Prometheus) Value(query string) (v float64, ok bool) {
	p.t.Helper()
	answer, err := http.Get("http://" + p.address + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, false // it is starting
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusServiceUnavailable {
		return 0, false
	}
	var found struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil || found.Error != "" {
		p.t.Fatal(query, err, found.Error)
	}
	if len(found.Data.Result) != 1 {
		return 0, false
	}
	v, err = strconv.ParseFloat(found.Data.Result[0].Value[1].(string), 64)
	return v, err == nil
}

// Wants waits until queries have values, within a relative error.
func (p *Prometheus) Wants(tolerance float64, values map[string]float64) {
	p.t.Helper()
	for query, want := range values {
		server.Eventually(p.t, func() string {
			if got, ok := p.Value(query); !ok || got < want*(1-tolerance) || got > want*(1+tolerance) {
				return fmt.Sprintf("%s is %v (%v), want %v", query, got, ok, want)
			}
			return ""
		})
	}
}
