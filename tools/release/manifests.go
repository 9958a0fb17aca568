package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	homepage    = "https://github.com/sluice-metrics/sluice"
	description = "Pushed metrics for Kubernetes autoscaling"
)

// download returns the URL and the checksum of a platform's archive.
func (r *release) download(p program) (url, sum string) {
	name := r.archiveName(p)
	return strings.TrimSuffix(r.url, "/") + "/" + name, r.sums[name]
}

// formula returns a Homebrew formula for a tap. https://docs.brew.sh/Formula-Cookbook
func (r *release) formula() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "class Sluice < Formula\n  desc %q\n  homepage %q\n  version %q\n  license \"Apache-2.0\"\n",
		description, homepage, r.version)
	for _, system := range []struct{ go_, brew string }{{"darwin", "macos"}, {"linux", "linux"}} {
		fmt.Fprintf(&b, "\n  on_%s do\n", system.brew)
		for _, processor := range []struct{ go_, brew string }{{"arm64", "arm"}, {"amd64", "intel"}} {
			for _, p := range r.programs {
				if p.name == server && p.os == system.go_ && p.architecture == processor.go_ {
					url, sum := r.download(p)
					fmt.Fprintf(&b, "    on_%s do\n      url %q\n      sha256 %q\n    end\n", processor.brew, url, sum)
				}
			}
		}
		b.WriteString("  end\n")
	}
	b.WriteString(`
  def install
    bin.install "sluice"
    generate_completions_from_executable(bin/"sluice", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sluice version")
  end
end
`)
	return []byte(b.String())
}

// The krew manifest. https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type (
	krewPlugin struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   krewName `json:"metadata"`
		Spec       krewSpec `json:"spec"`
	}
	krewName struct {
		Name string `json:"name"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector `json:"selector"`
		URI      string       `json:"uri"`
		SHA256   string       `json:"sha256"`
		Bin      string       `json:"bin"`
		Files    []krewFile   `json:"files"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	krewFile struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
)

// krew returns the manifest of the kubectl plugin.
func (r *release) krew() ([]byte, error) {
	manifest := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewName{"sluice"},
		Spec: krewSpec{
			Version: "v" + r.version, Homepage: homepage, ShortDescription: "Push metrics and read them as an autoscaler does",
			Description: "\"kubectl sluice get\" reads a metric from the metrics APIs as the Horizontal Pod Autoscaler does;\n" +
				"\"kubectl sluice push\" pushes one to a Sluice server.\n",
		},
	}
	for _, p := range r.programs {
		if p.name != plugin {
			continue
		}
		url, sum := r.download(p)
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": p.os, "arch": p.architecture}}, URI: url, SHA256: sum, Bin: plugin,
			Files: []krewFile{{plugin, "."}, {"LICENSE", "."}, {"THIRD_PARTY_LICENSES", "."}},
		})
	}
	return yaml.Marshal(manifest)
}
