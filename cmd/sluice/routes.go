package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/adapter/route"
)

// readRoutes reads api-routes-file. No provider is asked yet.
func (p *dataPath) readRoutes(context.Context) error {
	if p.cfg.routesFile == "" {
		return nil
	}
	providers, err := route.Read(p.cfg.routesFile)
	switch pathError := new(fs.PathError); {
	case errors.As(err, &pathError):
		return p.cfg.fault("api-routes-file", "cannot be read: %v", err)
	case err != nil:
		return p.cfg.fault("api-routes-file", "is invalid: %v", err)
	case len(providers) == 0:
		return nil
	}
	cfg := route.DefaultConfig(p.cfg.api.MaxInFlight, p.cfg.api.DiscoveryLimit)
	p.routes, err = route.New(cfg, providers, p.cluster.client.REST(), p.log)
	return err
}

// provider returns the other provider that answers an autoscaler's metric, and why it fails; both empty: Sluice
// answers.
func (p *dataPath) provider(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) (name, fault string) {
	if p.routes == nil || m.Source != "External" {
		return "", ""
	}
	selector, err := labelselector.Parse("selector", m.Selector)
	if err != nil {
		return "", ""
	}
	provider := p.routes.Find(a.Namespace, strings.ReplaceAll(m.Name, `\|`, "/"), selector)
	if provider == nil {
		return "", ""
	}
	fault, _ = provider.Fault()
	return provider.Name(), fault
}
