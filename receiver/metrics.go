package receiver

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers the metrics of connections. The ledger has those of samples.
func (s *Server) Register(registry prometheus.Registerer) error {
	var faults []error
	for _, one := range s.streams {
		faults = append(faults, registry.Register(one.limiter))
	}
	return errors.Join(faults...)
}
