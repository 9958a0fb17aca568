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
)

// module is a folder beside this one, with a go.mod of its own, and how its binaries are built.
type module struct {
	folder  string
	pattern string // what to build, in the words of "go build"
	ldflags string
}

func modules() []module {
	const version = "-X k8s.io/component-base/version."
	major, minor := majorMinor(KubernetesVersion)
	return []module{
		{folder: "etcd", pattern: ".", ldflags: "-s -w"},
		{folder: "kubernetes", pattern: "tool", ldflags: "-s -w " +
			version + "gitVersion=" + KubernetesVersion + " " + version + "gitMajor=" + major + " " + version + "gitMinor=" + minor},
	}
}

func majorMinor(version string) (major, minor string) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return parts[0], parts[1]
}

// build returns the folder that holds the module's binaries.
func (m module) build(ctx context.Context, report func(string)) (string, error) {
	source, err := m.source(ctx)
	if err != nil {
		return "", err
	}
	return m.buildFrom(ctx, source, report)
}

// buildFrom keeps a folder in the cache for each key. Such a folder is complete: it gets its name after its last
// file is written.
func (m module) buildFrom(ctx context.Context, source string, report func(string)) (string, error) {
	key, err := m.key(source)
	if err != nil {
		return "", err
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	built := filepath.Join(cache, m.folder+"-"+key)
	if exists(built) {
		return built, nil
	}
	release, err := lock(ctx, built+".lock")
	if err != nil {
		return "", err
	}
	defer release()
	if exists(built) { // another process was quicker
		return built, nil
	}
	report(fmt.Sprintf("building %s into %s", m.folder, built))
	return built, m.compile(ctx, source, built)
}

// source is the module's folder in the checkout, from wherever in this module the process runs.
func (m module) source(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	source := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), m.folder)
	if !exists(filepath.Join(source, "go.mod")) {
		return "", fmt.Errorf("%s has no go.mod: want to run inside the module e2e", source)
	}
	return source, nil
}

// key names everything that the binaries depend on.
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

func (m module) compile(ctx context.Context, source, built string) error {
	unfinished, err := os.MkdirTemp(filepath.Dir(built), m.folder+"-unfinished-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished) // gone by its new name where all went well
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false", "-ldflags", m.ldflags,
		"-o", unfinished+string(filepath.Separator), m.pattern)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", source, err, &out)
	}
	return os.Rename(unfinished, built)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
