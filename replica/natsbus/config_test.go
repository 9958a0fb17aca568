package natsbus

import (
	"slices"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	secured := Config{Cluster: "sluice", Listen: ":6222", Peers: []string{"a:6222"}, CertFile: "c", KeyFile: "k", CAFile: "a"}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // empty: valid
	}{
		{"TLS", func(*Config) {}, ""},
		{"default", func(c *Config) { *c = DefaultConfig() }, ""},
		{"IPv6", func(c *Config) { c.Peers = []string{"[::1]:6222"} }, ""},
		{"insecure", func(c *Config) { c.CertFile, c.KeyFile, c.CAFile, c.Insecure = "", "", "", true }, ""},
		{"URL", func(c *Config) { *c = DefaultConfig(); c.URL = "nats://a:4222,tls://b:4222"; c.CredsFile = "x" }, ""},
		{"name", func(c *Config) { c.Name = "Sluice.0" }, "Name is \"Sluice.0\""},
		{"cluster", func(c *Config) { c.Cluster = "" }, "Cluster is \"\""},
		{"wildcard", func(c *Config) { c.Cluster = "*" }, "Cluster is \"*\""},
		{"peer without a port", func(c *Config) { c.Peers = []string{"sluice-0"} }, "Peers has \"sluice-0\""},
		{"peer without a host", func(c *Config) { c.Peers = []string{":6222"} }, "Peers has \":6222\""},
		{"peer's port", func(c *Config) { c.Peers = []string{"a:http"} }, "Peers is \"a:http\""},
		{"listen", func(c *Config) { c.Listen = "6222" }, "Listen is \"6222\""},
		{"no TLS", func(c *Config) { c.CertFile, c.KeyFile, c.CAFile = "", "", "" }, "Peers is set without TLS"},
		{"no key", func(c *Config) { c.KeyFile = "" }, "KeyFile is empty"},
		{"insecure with TLS", func(c *Config) { c.Insecure = true }, "Insecure is true"},
		{"peers and URL", func(c *Config) { c.URL = "nats://a:4222" }, "URL is set, and so is Peers"},
		{"no URL", func(c *Config) { *c = DefaultConfig(); c.URL = "a:4222" }, "URL is not a URL"},
		{"name alone", func(c *Config) { *c = DefaultConfig(); c.Name = "a" }, "Name is set without other replicas; must have Peers or URL"},
		{"listen alone", func(c *Config) { *c = DefaultConfig(); c.Listen = "10.0.0.1:6222" }, "Listen is set without other replicas"},
		{"certificate alone", func(c *Config) { c.Peers = nil }, "CertFile is set without other replicas"},
		{"credentials without URL", func(c *Config) { c.CredsFile = "x" }, "CredsFile is set without URL"},
	} {
		cfg := secured
		c.change(&cfg)
		err := cfg.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestNameOfTheHost(t *testing.T) {
	if name := DefaultConfig().ReplicaName(); !validName.MatchString(name) {
		t.Errorf("%q is not a valid name", name)
	}
}

// A StatefulSet's pods are named by the first labels of their hosts. An address names no replica.
func TestPeerNames(t *testing.T) {
	cfg := Config{Peers: []string{"sluice-0.sluice-replicas.ops.svc:6222", "sluice-1:6222", "10.0.0.7:6222", "[::1]:6222"}}
	if got := cfg.PeerNames(); !slices.Equal(got, []string{"sluice-0", "sluice-1"}) {
		t.Error(got)
	}
}
