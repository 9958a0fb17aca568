package binaries

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
)

// KubernetesVersion is the version that the binaries report: that of k8s.io/kubernetes in
// kubernetes/go.mod, which "go build" does not record. Clients reject a server without a version.
const KubernetesVersion = "v1.36.3"

// Paths are the paths of the binaries.
type Paths struct {
	Etcd, APIServer, ControllerManager, Kubectl string
}

var once = sync.OnceValues(func() (Paths, error) { return Build(context.Background(), nil) })

// Get is Build, once a process.
func Get() (Paths, error) { return once() }

// Build builds the binaries that are not in the cache. It reports each build and its progress;
// report may be nil. The first build takes twelve minutes of one processor, a later one
// milliseconds. Processes that build at the same time wait for each other.
func Build(ctx context.Context, report func(string)) (Paths, error) {
	if report == nil {
		report = func(string) {}
	}
	folders := map[string]string{}
	for _, m := range modules() {
		folder, err := m.build(ctx, report)
		if err != nil {
			return Paths{}, fmt.Errorf("module %s: %w", m.folder, err)
		}
		folders[m.folder] = folder
	}
	in := func(module, name string) string { return filepath.Join(folders[module], name) }
	return Paths{
		Etcd:              in("etcd", "etcd"),
		APIServer:         in("kubernetes", "kube-apiserver"),
		ControllerManager: in("kubernetes", "kube-controller-manager"),
		Kubectl:           in("kubernetes", "kubectl"),
	}, nil
}
