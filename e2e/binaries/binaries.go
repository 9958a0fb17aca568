package binaries

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
)

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
	kubernetes, err := kubernetes(KubernetesVersion)
	if err != nil {
		return Paths{}, err
	}
	folders := [2]string{}
	for i, m := range []module{etcd(), kubernetes} {
		if folders[i], err = m.build(ctx, report); err != nil {
			return Paths{}, fmt.Errorf("module %s: %w", m.folder, err)
		}
	}
	return Paths{
		Etcd:              filepath.Join(folders[0], "etcd"),
		APIServer:         filepath.Join(folders[1], "kube-apiserver"),
		ControllerManager: filepath.Join(folders[1], "kube-controller-manager"),
		Kubectl:           filepath.Join(folders[1], "kubectl"),
	}, nil
}
