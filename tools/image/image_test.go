package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	container "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var (
	given  = flag.String("image", "", "existing image to test instead of one that the test builds")
	source = flag.String("source", "../..", "root of the repository")
)

// testVersion is that of the binaries: they embed it.
var testVersion = func() string {
	text, err := os.ReadFile("../../VERSION")
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text))
}()

// built is the product's binary for this platform.
func built(t *testing.T) program {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(t.TempDir(), "sluice"))
	must(t, err)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "./cmd/sluice")
	cmd.Dir = *source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return program{runtime.GOOS, runtime.GOARCH, path}
}

// imageFile is the tar that was given, or one of the product as it stands.
func imageFile(t *testing.T) string {
	t.Helper()
	if *given != "" {
		return *given
	}
	out := filepath.Join(t.TempDir(), "image.tar")
	p := built(t)
	err := run([]string{
		"-version", testVersion, "-commit", "c0ffee", "-created", "1700000000", "-out", out, "-document", "../../LICENSE",
		p.os + "/" + p.architecture + "=" + p.path,
	})
	must(t, err)
	return out
}

// TestImage unpacks the image as a container runtime does, checks every digest and size, and runs
// the binary of this platform.
func TestImage(t *testing.T) {
	file := imageFile(t)
	index := unpacked(t, file)
	if err := validate.Index(index); err != nil {
		t.Errorf("as an OCI layout: %v", err)
	}
	checkDocker(t, file)
	checkEnd(t, file)
	images := imagesOf(t, index)
	if len(images) == 0 {
		t.Fatal("no image in the index")
	}
	for platform, image := range images {
		t.Run(platform, func(t *testing.T) {
			labels := checkConfig(t, image)
			binary := checkContent(t, image)
			if platform == runtime.GOOS+"/"+runtime.GOARCH {
				checkRuns(t, binary, labels["org.opencontainers.image.version"])
			}
		})
	}
}

// checkDocker reads the tar as "docker load" does.
func checkDocker(t *testing.T, file string) {
	t.Helper()
	open := func() (io.ReadCloser, error) { return os.Open(file) }
	manifest, err := tarball.LoadManifest(open)
	must(t, err)
	for i := range manifest {
		single := tarball.Manifest{manifest[i]}
		if len(single[0].RepoTags) != 1 || !strings.HasPrefix(single[0].RepoTags[0], "sluice:") {
			t.Errorf("as Docker's archive: tags %v, want one of sluice", single[0].RepoTags)
		}
		for _, path := range append(single[0].Layers, single[0].Config) {
			if !holds(t, file, path) {
				t.Errorf("as Docker's archive: %s is missing", path)
			}
		}
	}
	if len(manifest) == 0 {
		t.Error("as Docker's archive: no image")
	}
}

func checkConfig(t *testing.T, image container.Image) (labels map[string]string) {
	t.Helper()
	file, err := image.ConfigFile()
	must(t, err)
	if file.Config.User != "65532:65532" {
		t.Errorf("user %q: want 65532:65532, by number, or a kubelet cannot tell that it is not root", file.Config.User)
	}
	if got := fmt.Sprint(file.Config.Entrypoint, file.Config.Cmd); got != "[/sluice] [serve]" {
		t.Errorf("entrypoint and command %s: want [/sluice] [serve]", got)
	}
	for _, label := range []string{"title", "version", "revision", "created", "licenses", "source"} {
		if file.Config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("no label org.opencontainers.image.%s", label)
		}
	}
	return file.Config.Labels
}

// checkContent requires one layer with these files and no other, and returns the binary.
func checkContent(t *testing.T, image container.Image) (binary []byte) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v): want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	must(t, err)
	defer content.Close()
	file, err := image.ConfigFile()
	must(t, err)
	var names []string
	eachFile(t, content, func(header *tar.Header, text io.Reader) {
		if !header.ModTime.Equal(file.Created.Time) {
			t.Errorf("%s is of %v: want the image's time, %v", header.Name, header.ModTime, file.Created)
		}
		names = append(names, fmt.Sprintf("%s %d %04o", header.Name, header.Uid, header.Mode))
		if header.Name == "sluice" {
			binary, err = io.ReadAll(text)
			must(t, err)
		}
	})
	want := "data/ 65532 0700, LICENSE 0 0644, sluice 0 0755"
	if *given != "" {
		want = "data/ 65532 0700, LICENSE 0 0644, THIRD_PARTY_LICENSES 0 0644, sluice 0 0755"
	}
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("it holds %s; want %s", got, want)
	}
	program, err := elf.NewFile(bytes.NewReader(binary))
	must(t, err)
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("the binary wants a loader, and the image has none: want CGO_ENABLED=0")
		}
	}
	return binary
}

func checkRuns(t *testing.T, binary []byte, version string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	must(t, os.WriteFile(path, binary, 0o755))
	said, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "sluice "+version+" ") {
		t.Errorf("its version says %q (%v): want the label's, %s", said, err, version)
	}
}

// checkEnd requires the two blocks of zeros at the end that POSIX requires: Go's reader does
// without them, others reject the file.
func checkEnd(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	const block = 512
	if end := len(text) - 2*block; len(text)%block != 0 || end < 0 || !bytes.Equal(text[end:], make([]byte, 2*block)) {
		t.Errorf("the archive has %d bytes and does not end in two blocks of zeros: it is cut short", len(text))
	}
}

// Nothing of the machine or the moment is in the image.
func TestSameInputSameImage(t *testing.T) {
	write := func(content string, created time.Time) []byte {
		binary := filepath.Join(t.TempDir(), "sluice")
		must(t, os.WriteFile(binary, []byte(content), 0o600))
		r := release{version: "v1", commit: "c", created: created, documents: []string{"../../LICENSE"}}
		text, err := r.write([]program{{"linux", "amd64", binary}})
		must(t, err)
		return text
	}
	then := time.Unix(1_700_000_000, 0).UTC()
	first := write("content", then)
	if !bytes.Equal(first, write("content", then)) {
		t.Error("the same input made two images")
	}
	eachFile(t, bytes.NewReader(first), func(header *tar.Header, _ io.Reader) {
		if !header.ModTime.Equal(then) {
			t.Errorf("%s is of %v: want %v", header.Name, header.ModTime, then)
		}
	})
	if bytes.Equal(first, write("other content", then)) || bytes.Equal(first, write("content", then.Add(time.Second))) {
		t.Error("another input made the same image: the test does not see what it should")
	}
}

func TestArguments(t *testing.T) {
	for _, args := range []string{"", "-version v1 -out x", "-out x linux/amd64=x", "-version v1 linux/amd64=x", "-version v1 -out x linux=x", "-version v1 -out x linux/amd64", "-version v1 -out x linux/amd64=/nowhere", "-created soon"} {
		if run(strings.Fields(args)) == nil {
			t.Errorf("%q was taken: want a refusal", args)
		}
	}
}
