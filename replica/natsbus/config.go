package natsbus

import (
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config names this replica and the others. With neither Peers nor URL there are no replicas.
type Config struct {
	Name    string // of this replica; empty: from the host's name
	Cluster string // the replicas of one cluster hear each other

	Peers  []string // host:port of every replica; this one's own may be among them
	Listen string   // host:port for the other replicas

	CertFile, KeyFile, CAFile string // PEM, of the connections between replicas
	Insecure                  bool   // no TLS between replicas

	AssumeCut bool // a replica that is not heard lives behind a cut link; standalone

	URL       string // of the user's NATS, instead of Peers; several are separated by commas
	CredsFile string // for URL
	URLCAFile string // for URL; empty: the system's authorities
}

// DefaultConfig has no peers.
func DefaultConfig() Config { return Config{Cluster: "sluice", Listen: ":6222"} }

// Enabled reports whether there are other replicas.
func (c Config) Enabled() bool { return len(c.Peers) > 0 || c.URL != "" }

// ListenAddress is where the embedded server listens; empty: there is none.
func (c Config) ListenAddress() string {
	if len(c.Peers) == 0 {
		return ""
	}
	return c.Listen
}

var (
	notInName = regexp.MustCompile(`[^a-z0-9-]+`)
	validName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

// ValidName reports whether a replica, or a cluster of replicas, may have this name.
func ValidName(name string) bool { return validName.MatchString(name) }

// ReplicaName is Name or, if that is empty, the host's name with other characters as dashes.
func (c Config) ReplicaName() string {
	if c.Name != "" {
		return c.Name
	}
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(host), "-"), "-")
	return name[:min(len(name), 63)]
}

// PeerNames are the names of the replicas among the peers: the first label of each host, which is the
// pod's name in a StatefulSet. Addresses name none.
func (c Config) PeerNames() (names []string) {
	for _, peer := range c.Peers {
		host, _, err := net.SplitHostPort(peer)
		if label, _, _ := strings.Cut(host, "."); err == nil && net.ParseIP(host) == nil && ValidName(label) {
			names = append(names, label)
		}
	}
	return names
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if c.Name != "" && !ValidName(c.Name) {
		faults.Add("Name", "is %q; must be 1 to 63 of a-z, 0-9 and -", c.Name)
	} else if c.Enabled() && c.ReplicaName() == "" {
		faults.Add("Name", "is empty, and so is the host's name; must be set")
	}
	if !ValidName(c.Cluster) {
		faults.Add("Cluster", "is %q; must be 1 to 63 of a-z, 0-9 and -", c.Cluster)
	}
	faults.AddUnlessHostPort("Listen", c.Listen, DefaultConfig().Listen)
	c.validateURL(&faults)
	c.validatePeers(&faults)
	c.validateTLS(&faults)
	c.validateAlone(&faults)
	return faults.Join()
}

// validateAlone rejects settings of a replica that names no others: it would answer with a part of the sum.
func (c Config) validateAlone(faults *config.Faults) {
	if c.Enabled() {
		return
	}
	for _, one := range []struct {
		field config.Field
		set   bool
	}{
		{"Name", c.Name != ""}, {"Listen", c.Listen != DefaultConfig().Listen},
		{"CertFile", c.CertFile != ""}, {"KeyFile", c.KeyFile != ""}, {"CAFile", c.CAFile != ""}, {"Insecure", c.Insecure},
	} {
		if one.set {
			faults.Add(one.field, "is set without other replicas; must have %s or %s", config.Field("Peers"),
				config.Field("URL"))
			return
		}
	}
}

func (c Config) validatePeers(faults *config.Faults) {
	for _, peer := range c.Peers {
		host, port, err := net.SplitHostPort(peer)
		if err != nil || host == "" || port == "" || port == "0" {
			faults.Add("Peers", "has %q; must be host:port, as in sluice-0.sluice-replicas:6222", peer)
			return
		}
		faults.AddUnlessHostPort("Peers", peer, "sluice-0.sluice-replicas:6222")
	}
}

func (c Config) validateTLS(faults *config.Faults) {
	files := []struct {
		field config.Field
		path  string
	}{{"CertFile", c.CertFile}, {"KeyFile", c.KeyFile}, {"CAFile", c.CAFile}}
	given := 0
	for _, file := range files {
		if file.path != "" {
			given++
		}
	}
	switch {
	case given > 0 && c.Insecure:
		faults.Add("Insecure", "is true, and TLS files are set; must be one of them")
	case given > 0 && given < len(files):
		for _, file := range files {
			if file.path == "" {
				faults.Add(file.field, "is empty; must be set, since %s, %s and %s go together",
					files[0].field, files[1].field, files[2].field)
			}
		}
	case given == 0 && !c.Insecure && len(c.Peers) > 0:
		faults.Add("Peers", "is set without TLS; must have %s, %s and %s",
			files[0].field, files[1].field, files[2].field)
	}
}

func (c Config) validateURL(faults *config.Faults) {
	if c.URL == "" {
		for _, file := range []struct {
			field config.Field
			path  string
		}{{"CredsFile", c.CredsFile}, {"URLCAFile", c.URLCAFile}} {
			if file.path != "" {
				faults.Add(file.field, "is set without %s", config.Field("URL"))
			}
		}
		return
	}
	if len(c.Peers) > 0 {
		faults.Add("URL", "is set, and so is %s; must be one of them", config.Field("Peers"))
	}
	for _, one := range strings.Split(c.URL, ",") {
		parsed, err := url.Parse(strings.TrimSpace(one))
		if err != nil || parsed.Host == "" || (parsed.Scheme != "nats" && parsed.Scheme != "tls") {
			faults.Add("URL", "is not a URL of NATS; must be as in nats://nats.example:4222 or tls://…")
			return
		}
	}
}

// PlainURL reports whether the connections to URL do not insist on TLS, as they do with one tls:// in
// it (nats.go, setupServerPool) or with authorities.
func (c Config) PlainURL() bool {
	return c.URL != "" && c.URLCAFile == "" && !c.anyURL(func(u *url.URL) bool { return u.Scheme == "tls" })
}

// AnonymousURL reports whether there is a server of URL to which no credential is shown.
func (c Config) AnonymousURL() bool {
	return c.CredsFile == "" && c.anyURL(func(u *url.URL) bool { return u.User == nil })
}

func (c Config) anyURL(is func(*url.URL) bool) bool {
	for one := range strings.SplitSeq(c.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil && u.Host != "" && is(u) {
			return true
		}
	}
	return false
}

// readable reports a file for URL that cannot be read. Each connection reads them again.
func (c Config) readable() error {
	for _, file := range []struct {
		field config.Field
		path  string
	}{{"CredsFile", c.CredsFile}, {"URLCAFile", c.URLCAFile}} {
		if file.path == "" {
			continue
		}
		if _, err := os.ReadFile(file.path); err != nil {
			return config.NewFault(file.field, "cannot be read: %w", err)
		}
	}
	return nil
}
