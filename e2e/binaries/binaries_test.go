package binaries

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The version that a binary reports follows the module that it is built from.
func TestVersionIsThatOfTheModule(t *testing.T) {
	for version, folder := range kubernetesFolders {
		content, err := os.ReadFile(filepath.Join("..", folder, "go.mod"))
		must(t, err)
		if want := "\tk8s.io/kubernetes " + version + " "; !strings.Contains(string(content), want) {
			t.Errorf("%s/go.mod does not say %q: want kubernetesFolders and it to agree", folder, strings.TrimSpace(want))
		}
		libraries, replaced := "v0"+strings.TrimPrefix(version, "v1"), 0
		for line := range strings.Lines(string(content)) {
			if !strings.Contains(line, " => ") {
				continue
			}
			if replaced++; !strings.HasSuffix(line, " "+libraries+"\n") {
				t.Errorf("%s/go.mod: %q: want %s", folder, strings.TrimSpace(line), libraries)
			}
		}
		if replaced < 20 {
			t.Errorf("%s/go.mod replaces %d libraries; the test does not see what it should", folder, replaced)
		}
	}
}

// The version of the binaries is part of their module's key, so each has a folder in the cache. One that
// there is no module for is an error that names the others.
func TestKubernetesVersions(t *testing.T) {
	one, err := kubernetes("v1.36.3")
	if err != nil || one.folder != "kubernetes-1.36" || !strings.HasSuffix(one.ldflags, ".gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36") {
		t.Errorf("%+v, %v", one, err)
	}
	for _, version := range []string{"v1.35.0", "v", "vnewest"} {
		if _, err := kubernetes(version); err == nil || !strings.Contains(err.Error(), "must be one of v1.36.3, v1.37.1") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestVersionOfKEDAIsThatOfTheModule(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "kedacore", "go.mod"))
	must(t, err)
	if want := "\tgithub.com/kedacore/keda/v2 " + KEDAVersion + " "; !strings.Contains(string(content), want) {
		t.Errorf("kedacore/go.mod does not say %q: want KEDAVersion and it to agree", strings.TrimSpace(want))
	}
}

// Without a build there is an error that says what to do, and nothing is built.
func TestCachedKEDAIsNotBuilt(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(cacheVariable, folder)
	if _, err := CachedKEDA(t.Context()); !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "make keda") {
		t.Errorf("error is %v, want ErrNotBuilt", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// tiny is a module that builds in a moment.
func tiny(t *testing.T) (m module, source string) {
	t.Helper()
	t.Setenv(cacheVariable, t.TempDir())
	source = t.TempDir()
	write(t, filepath.Join(source, "go.mod"), "module example.org/tiny\n\ngo 1.26.0\n")
	write(t, filepath.Join(source, "main.go"), "package main\n\nvar word = \"one\"\n\nfunc main() { println(word) }\n")
	return module{folder: "tiny", pattern: ".", ldflags: "-s -w"}, source
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func TestBuiltOnceAndAgainWhenItsSourceChanges(t *testing.T) {
	m, source := tiny(t)
	builds := 0
	report := func(text string) {
		if strings.Contains(text, "compiling") {
			builds++
		}
	}
	build := func() string {
		t.Helper()
		folder, err := m.buildFrom(t.Context(), source, report)
		must(t, err)
		out, err := exec.Command(filepath.Join(folder, "tiny")).CombinedOutput()
		must(t, err)
		return strings.TrimSpace(string(out))
	}
	if first, again := build(), build(); first != "one" || again != "one" || builds != 1 {
		t.Errorf("two runs say %q and %q after %d builds, want one, one and 1", first, again, builds)
	}
	write(t, filepath.Join(source, "main.go"), "package main\n\nvar word = \"two\"\n\nfunc main() { println(word) }\n")
	if got := build(); got != "two" || builds != 2 {
		t.Errorf("after a change it says %q after %d builds, want two and 2", got, builds)
	}
}

// A build that fails leaves nothing that a later run would take for a binary.
func TestFailedBuildIsNotKept(t *testing.T) {
	m, source := tiny(t)
	write(t, filepath.Join(source, "main.go"), "package main\n\nfunc main() { absent() }\n")
	for range 2 {
		_, err := m.buildFrom(t.Context(), source, func(string) {})
		if err == nil || !strings.Contains(err.Error(), "undefined: absent") {
			t.Errorf("error is %v, want the compiler's error", err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(os.Getenv(cacheVariable), "*"))
	must(t, err)
	for _, path := range kept {
		if !strings.HasSuffix(path, ".lock") {
			t.Errorf("%s is left", path)
		}
	}
}

func TestSecondBuildWaitsForTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lock(t.Context(), path)
	must(t, err)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(short, path); err == nil {
		t.Fatal("the lock was given twice")
	}
	release()
	again, err := lock(t.Context(), path)
	must(t, err)
	again()
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
