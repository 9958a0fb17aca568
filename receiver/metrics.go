package receiver

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers the metrics of connections. The ledger has those of samples.
func (s *Server) Register(registry prometheus.Registerer) error {
	var faults []error
	for _, stream := range s.streams {
		faults = append(faults, registry.Register(stream.limiter))
	}
	return errors.Join(faults...)
}
