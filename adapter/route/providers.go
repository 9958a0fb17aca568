package route

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"go.yaml.in/yaml/v3"
)

// Spec is a provider as the file of providers has it. A metric is the provider's if all that is set matches.
type Spec struct {
	Name string `yaml:"name"`
	// URL is that of its API server, https://HOST[:PORT].
	URL string `yaml:"url"`
	// CAFile holds the authorities of its certificate, in PEM; read at each connection.
	CAFile string `yaml:"caFile"`
	// ServerName is the host in its certificate; empty: the URL's.
	ServerName string `yaml:"serverName"`
	// ScaledObjects selects what KEDA's autoscalers ask for, by the selector that KEDA gives them.
	ScaledObjects bool `yaml:"scaledObjects"`
	// Metrics are patterns of names, Namespaces of namespaces; "*" stands for any text. No namespaces: all.
	Metrics    []string `yaml:"metrics"`
	Namespaces []string `yaml:"namespaces"`
	// Impersonate has Sluice ask as the caller, for a provider that has rules of its own per user.
	Impersonate bool `yaml:"impersonate"`
}

// Read reads a file of providers, and returns all its faults at once.
func Read(path string) ([]Spec, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it was only read
	var content struct {
		Providers []Spec `yaml:"providers"`
	}
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(&content); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var faults []error
	seen := map[string]bool{}
	for i := range content.Providers {
		s := &content.Providers[i]
		for _, fault := range s.faults() {
			faults = append(faults, fmt.Errorf("providers[%d].%s", i, fault))
		}
		if seen[s.Name] && s.Name != "" {
			faults = append(faults, fmt.Errorf("providers[%d].name: %s is another provider's; must be of this one alone", i, s.Name))
		}
		seen[s.Name] = true
	}
	return content.Providers, errors.Join(faults...)
}

// validName is one that may stand in the label of a metric and in a file's name.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (s *Spec) faults() (faults []string) {
	if !validName.MatchString(s.Name) {
		faults = append(faults, fmt.Sprintf("name: is %q; must be of a-z, 0-9 and -, at most 63", s.Name))
	}
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		faults = append(faults, fmt.Sprintf("url: is %q; must be https://HOST[:PORT], without a path or a user", metric.Mask(s.URL)))
	}
	if _, err := readAuthorities(s.CAFile); err != nil {
		faults = append(faults, "caFile: "+err.Error())
	}
	if !s.ScaledObjects && len(s.Metrics) == 0 {
		faults = append(faults, `metrics: is empty, and scaledObjects is false; one must be set, as in metrics: ["datadogmetric@*"]`)
	}
	for field, patterns := range map[string][]string{"metrics": s.Metrics, "namespaces": s.Namespaces} {
		for i, pattern := range patterns {
			if pattern == "" {
				faults = append(faults, fmt.Sprintf(`%s[%d]: is empty; must be a pattern, as in "*"`, field, i))
			}
		}
	}
	return faults
}

// patterns matches any of them; nil: none.
func patterns(all []string) *regexp.Regexp {
	if len(all) == 0 {
		return nil
	}
	alternatives := make([]string, len(all))
	for i, pattern := range all {
		alternatives[i] = strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	}
	return regexp.MustCompile(`(?s)^(?:` + strings.Join(alternatives, "|") + `)$`)
}
