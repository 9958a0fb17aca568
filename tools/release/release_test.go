package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var given = flag.String("dir", "", "existing release to test instead of one of small files")

// fixture are the arguments of a release whose binaries are all this test's own.
func fixture(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	self, err := os.Executable()
	must(t, err)
	chart, err := packed(func(archive *tar.Writer) error {
		return (&release{}).addTo(archive, "sluice/Chart.yaml", 0o644, []byte("name: sluice\nversion: 0.0.1\nappVersion: 0.0.1\n"))
	})
	must(t, err)
	args := []string{
		"-version", "0.0.1", "-commit", "c0ffee", "-created", "1700000000", "-url", "https://example.org/v0.0.1",
		"-chart", write("chart.tgz", chart), "-image", write("image.tar", []byte("image")),
		"-license", write("LICENSE", []byte("licence")), "-notices", write("notices", []byte("notices")),
		"-out", filepath.Join(folder, "out"),
	}
	for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"} {
		args = append(args, platform+"/"+server+"="+self, platform+"/"+plugin+"="+self)
	}
	return args
}

// folder is the release to test.
func folder(t *testing.T) string {
	t.Helper()
	if *given != "" {
		return *given
	}
	args := fixture(t)
	must(t, run(args))
	return args[slices.Index(args, "-out")+1]
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// unpack returns the files of a tar.gz.
func unpack(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	must(t, err)
	files := map[string][]byte{}
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// Sums, URLs and versions of a release agree.
func TestRelease(t *testing.T) {
	dir := folder(t)
	sums := map[string]string{}
	for line := range strings.Lines(string(read(t, filepath.Join(dir, sumsName)))) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			t.Fatalf("%s: bad line %q", sumsName, line)
		}
		sums[name] = sum
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		if entry.Name() == sumsName {
			continue
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(read(t, filepath.Join(dir, entry.Name())))); sums[entry.Name()] != sum {
			t.Errorf("%s: %s has %q, want %s", entry.Name(), sumsName, sums[entry.Name()], sum)
		}
	}
	if len(sums) != len(entries)-1 {
		t.Errorf("%s names %d files, want %d", sumsName, len(sums), len(entries)-1)
	}

	var manifest krewPlugin
	must(t, yaml.UnmarshalStrict(read(t, filepath.Join(dir, "sluice.yaml")), &manifest))
	version := strings.TrimPrefix(manifest.Spec.Version, "v")
	if len(manifest.Spec.Platforms) != 4 {
		t.Errorf("the krew manifest has %d platforms, want 4", len(manifest.Spec.Platforms))
	}
	formula := string(read(t, filepath.Join(dir, "sluice.rb")))
	if !strings.Contains(formula, fmt.Sprintf("version %q", version)) {
		t.Errorf("the formula is not of version %s:\n%s", version, formula)
	}
	brewed := map[string]string{}
	for _, found := range regexp.MustCompile(`url "([^"]+)"\s+sha256 "([^"]+)"`).FindAllStringSubmatch(formula, -1) {
		brewed[found[1]] = found[2]
	}
	for _, platform := range manifest.Spec.Platforms {
		name := path.Base(platform.URI)
		system, architecture := platform.Selector.MatchLabels["os"], platform.Selector.MatchLabels["arch"]
		if want := fmt.Sprintf("%s-%s-%s-%s.tar.gz", plugin, version, system, architecture); name != want {
			t.Errorf("%s/%s is downloaded from %s, want %s", system, architecture, name, want)
		}
		if platform.SHA256 != sums[name] || sums[name] == "" {
			t.Errorf("%s: krew has sum %q, %s %q; must be the same", name, platform.SHA256, sumsName, sums[name])
		}
		ofServer := strings.Replace(platform.URI, plugin, server, 1)
		if sum := sums[path.Base(ofServer)]; brewed[ofServer] != sum || sum == "" {
			t.Errorf("%s: Homebrew has sum %q, %s %q; must be the same", ofServer, brewed[ofServer], sumsName, sum)
		}
		for binary, name := range map[string]string{plugin: name, server: path.Base(ofServer)} {
			checkArchive(t, system, architecture, version, binary, unpack(t, read(t, filepath.Join(dir, name))))
			checkList(t, version, read(t, filepath.Join(dir, strings.TrimSuffix(name, ".tar.gz")+".spdx.json")))
		}
	}
	if len(brewed) != len(manifest.Spec.Platforms) {
		t.Errorf("the formula has %d downloads, want %d", len(brewed), len(manifest.Spec.Platforms))
	}

	var chart struct{ Version, AppVersion string }
	files := unpack(t, read(t, filepath.Join(dir, "sluice-"+version+".tgz")))
	if err := yaml.Unmarshal(files["sluice/Chart.yaml"], &chart); err != nil || chart.Version != version || chart.AppVersion != version {
		t.Errorf("the chart is %+v (%v), want version %s twice", chart, err, version)
	}
	for _, name := range []string{"sluice-" + version + "-image.tar", "sluice-" + version + "-third-party-licenses.txt"} {
		if sums[name] == "" {
			t.Errorf("no %s", name)
		}
	}
}

func checkArchive(t *testing.T, system, architecture, version, name string, files map[string][]byte) {
	t.Helper()
	for _, file := range []string{name, "LICENSE", "THIRD_PARTY_LICENSES"} {
		if len(files[file]) == 0 {
			t.Errorf("%s/%s: no %s in the archive of %s", system, architecture, file, name)
		}
	}
	if *given == "" {
		return // the binaries are this test's own
	}
	if binary, err := elf.NewFile(bytes.NewReader(files[name])); err == nil {
		for _, segment := range binary.Progs {
			if segment.Type == elf.PT_INTERP {
				t.Errorf("%s/%s: the binary needs a loader; must be static", system, architecture)
			}
		}
	} else if system == "linux" {
		t.Errorf("%s/%s: %v", system, architecture, err)
	}
	if system != runtime.GOOS || architecture != runtime.GOARCH {
		return
	}
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, files[name], 0o755))
	said, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "sluice "+version+" ") {
		t.Errorf("the binary says %q (%v), want version %s", said, err, version)
	}
}

func checkList(t *testing.T, version string, text []byte) {
	t.Helper()
	var list struct {
		Packages []struct{ Name, VersionInfo string }
	}
	if err := json.Unmarshal(text, &list); err != nil || len(list.Packages) < 2 || list.Packages[0].Name != "sluice" || list.Packages[0].VersionInfo != version {
		t.Errorf("%v: the SPDX list does not begin with sluice %s: %.300s", err, version, text)
	}
}

func TestSameInputSameRelease(t *testing.T) {
	args := fixture(t)
	out := slices.Index(args, "-out") + 1
	var sums []map[string]string
	for _, name := range []string{"a", "b"} {
		args[out] = filepath.Join(t.TempDir(), name)
		must(t, run(args))
		found := map[string]string{}
		for line := range strings.Lines(string(read(t, filepath.Join(args[out], sumsName)))) {
			found[line] = line
		}
		sums = append(sums, found)
	}
	if !maps.Equal(sums[0], sums[1]) {
		t.Errorf("the same input made %v and %v", sums[0], sums[1])
	}
}

func TestArguments(t *testing.T) {
	whole := fixture(t)
	for _, without := range []string{"-version", "-url", "-chart", "-image", "-license", "-notices", "-out"} {
		i := slices.Index(whole, without)
		if err := run(slices.Concat(whole[:i], whole[i+2:])); err == nil || !strings.Contains(err.Error(), without+" is required") {
			t.Errorf("without %s: error %v", without, err)
		}
	}
	if err := run(append(whole, "linux=x")); err == nil {
		t.Error("linux=x was accepted")
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
