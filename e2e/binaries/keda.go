package binaries

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// KEDAVersion is the version of KEDA in kedacore/go.mod. The binaries report it.
const KEDAVersion = "v2.21.0"

// ErrNotBuilt is the error of CachedKEDA if the binaries have never been built.
var ErrNotBuilt = errors.New(`KEDA's binaries are not built; "make keda" builds them (13 minutes of one processor)`)

// KEDA are the paths of KEDA's binaries and manifests.
type KEDA struct {
	Operator, Adapter string
	// Definitions are the manifests of the custom resources.
	Definitions []string
}

// BuildKEDA is Build for KEDA's binaries, which few tests need.
func BuildKEDA(ctx context.Context, report func(string)) (KEDA, error) {
	m := keda()
	folder, err := m.build(ctx, report)
	if err != nil {
		return KEDA{}, fmt.Errorf("module %s: %w", m.folder, err)
	}
	return m.paths(ctx, folder)
}

// CachedKEDA returns the binaries of an earlier build, or ErrNotBuilt.
func CachedKEDA(ctx context.Context) (KEDA, error) {
	m := keda()
	source, err := m.source(ctx)
	if err != nil {
		return KEDA{}, err
	}
	folder, err := m.cached(source)
	if err != nil {
		return KEDA{}, err
	}
	if !exists(folder) {
		return KEDA{}, ErrNotBuilt
	}
	return m.paths(ctx, folder)
}

// paths finds the manifests in the module that the binaries are built from.
func (m module) paths(ctx context.Context, folder string) (KEDA, error) {
	source, err := m.source(ctx)
	if err != nil {
		return KEDA{}, err
	}
	out, err := m.command(ctx, source, "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2").Output()
	if err != nil {
		return KEDA{}, fmt.Errorf("the module of KEDA: %w", err)
	}
	definitions, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "bases", "*.yaml"))
	if err == nil && len(definitions) == 0 {
		err = errors.New("the module of KEDA has no definitions of custom resources")
	}
	return KEDA{
		Operator: filepath.Join(folder, "operator"), Adapter: filepath.Join(folder, "adapter"), Definitions: definitions,
	}, err
}
