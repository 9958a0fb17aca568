package push

import (
	"fmt"
	"slices"

	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/native"
	"github.com/sluice-metrics/sluice/receiver/push/otlphttp"
	"github.com/sluice-metrics/sluice/receiver/push/statsdhttp"
)

// NewSamplesOnly is New for a process that has no values, such as an agent: it takes pushes to the paths of single
// metrics, lines of /v1/samples and StatsD, and exports of OTLP over HTTP, and answers nothing else. Of parts it needs NewApplier, Resources, Ledger
// and Logger.
func NewSamplesOnly(cfg Config, parts Parts) (*httpserver.Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	routes := slices.Concat(native.New(nil, nil, nil, nil).Routes(), statsdhttp.New(cfg.Dialect).Routes(),
		otlphttp.New(cfg.Config, cfg.OTLPResourceAttributes).Routes())
	for _, route := range routes {
		route.Get, route.Delete = nil, nil
	}
	return httpserver.New(cfg.Config, httpserver.Parts{
		NewApplier: parts.NewApplier, Resources: parts.Resources, Ledger: parts.Ledger, Logger: parts.Logger,
		Listener: parts.Listener, Freshen: parts.Freshen, Senders: parts.Senders, Worded: parts.Worded,
	}, routes)
}
