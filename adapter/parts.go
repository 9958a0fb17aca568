package adapter

import (
	"errors"
	"log/slog"

	"k8s.io/client-go/rest"
)

// Parts is what a Server works with. Cluster and API are both given, or neither: standalone.
type Parts struct {
	Source Source
	// Cluster knows the objects.
	Cluster Cluster
	// Counted knows what workloads have pushed. nil: a pod without a series is not found.
	Workloads Workloads
	// API is how the cluster's API server is reached, which decides who may read. It need not be there at start.
	API *rest.Config
	// Ready says whether an answer would be whole, and if not what is waited for. It is asked with every request.
	// nil: always.
	Ready  func() (bool, string)
	Logger *slog.Logger
}

func (p Parts) validate() error {
	if (p.Cluster == nil) != (p.API == nil) {
		return errors.New("Parts.Cluster, Parts.API: give both or neither: what a cluster's objects do is read by whom its API server allows")
	}
	return nil
}
