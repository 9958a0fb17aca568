package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// module is a folder beside this one with a go.mod of its own.
type module struct {
	folder  string
	about   string // its binaries
	pattern string // of packages, for "go build"
	ldflags string
}

func etcd() module { return module{folder: "etcd", about: "etcd", pattern: ".", ldflags: "-s -w"} }

func keda() module {
	return module{folder: "kedacore", about: "KEDA's operator and adapter", pattern: "tool",
		ldflags: "-s -w -X github.com/kedacore/keda/v2/version.Version=" + KEDAVersion}
}

// cached returns the folder in the cache, which may not exist yet.
func (m module) cached(source string) (string, error) {
	key, err := m.key(source)
	if err != nil {
		return "", err
	}
	cache, err := cacheFolder()
	return filepath.Join(cache, m.folder+"-"+key), err
}

// build returns the folder that holds the module's binaries.
func (m module) build(ctx context.Context, report func(string)) (string, error) {
	source, err := m.source(ctx)
	if err != nil {
		return "", err
	}
	return m.buildFrom(ctx, source, report)
}

// buildFrom keeps a folder in the cache per key. A folder gets its name after its last file is
// written, so it is complete.
func (m module) buildFrom(ctx context.Context, source string, report func(string)) (string, error) {
	built, err := m.cached(source)
	if err != nil {
		return "", err
	}
	if exists(built) {
		return built, nil
	}
	release, err := lock(ctx, built+".lock")
	if err != nil {
		return "", err
	}
	defer release()
	if exists(built) { // another process built it
		return built, nil
	}
	report(fmt.Sprintf("%s: compiling %s into %s; later runs reuse it", m.folder, m.about, built))
	return built, m.compile(ctx, source, built, report)
}

// source is the module's folder in the checkout. The process must run inside the module e2e.
func (m module) source(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	source := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), m.folder)
	if !exists(filepath.Join(source, "go.mod")) {
		return "", fmt.Errorf("%s has no go.mod; run inside the module e2e", source)
	}
	return source, nil
}

// key is a hash of everything that the binaries depend on.
func (m module) key(source string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH, m.pattern, m.ldflags)
	files, err := filepath.Glob(filepath.Join(source, "*")) // sorted
	if err != nil {
		return "", err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, filepath.Base(file), len(content))
		sum.Write(content)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}

func (m module) compile(ctx context.Context, source, built string, report func(string)) error {
	unfinished, err := os.MkdirTemp(filepath.Dir(built), m.folder+"-unfinished-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished) // after a success it has another name
	list := m.command(ctx, source, "list", "-mod=readonly", "-deps", m.pattern)
	packages, err := list.Output() // downloads the modules
	if err != nil {
		return fmt.Errorf("go list in %s: %w", source, err)
	}
	seen := &progress{name: m.folder, total: bytes.Count(packages, []byte{'\n'}), report: report, begun: time.Now()}
	build := m.command(ctx, source, "build", "-v", "-mod=readonly", "-buildvcs=false", "-ldflags", m.ldflags,
		"-o", unfinished+string(filepath.Separator), m.pattern)
	build.Stdout, build.Stderr = seen, seen
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", source, err, &seen.rest)
	}
	return os.Rename(unfinished, built)
}

func (m module) command(ctx context.Context, source string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	// A third of the compiler's time is garbage collection otherwise.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOGC=400", "GOMEMLIMIT=1GiB")
	return cmd
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
