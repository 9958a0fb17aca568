package main

import (
	"context"
	"errors"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/internal/pressure"
)

// collectorsShare selects the CPU classes that give the garbage collector's share. Go's CPU figures
// compare with each other only, not with the kernel's.
var collectorsShare = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/cpu/classes/(gc/total|idle|total):cpu-seconds$`)}

// newRegistry returns a registry with the metrics of the process. Metrics that libraries register
// with the default registry are not in it.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "Always 1; its labels say what is running.",
		ConstLabels: prometheus.Labels{"version": sluice.Version, "commit": sluice.Commit()},
	})
	info.Set(1)
	short := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_memory_pressure", Help: "1 while Sluice uses seven eighths of the limit of Go's heap or more: a namespace may then use an eighth of each budget of requests in memory.",
	}, func() float64 {
		if pressure.High() {
			return 1
		}
		return 0
	})
	registry.MustRegister(info, short, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectorsShare)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// register adds the metrics of every stage.
func (p *dataPath) register(context.Context) error {
	faults := []error{
		p.registry.Register(p.ledger),
		p.registry.Register(p.table),
		p.registry.Register(p.store),
		p.statsd.Register(p.registry),
		p.registry.Register(p.groups),
		p.push.Register(p.registry),
		p.api.Register(p.registry),
	}
	if c := &p.cluster; c.view != nil {
		faults = append(faults, c.view.Register(p.registry), c.limits.Register(p.registry), c.pending.Register(p.registry),
			c.workloads.Register(p.registry),
			p.registry.Register(c.autoscalers))
	}
	if p.scraper != nil {
		faults = append(faults, p.registry.Register(p.scraper))
	}
	if p.routes != nil {
		faults = append(faults, p.registry.Register(p.routes))
	}
	if p.cluster.waker != nil {
		faults = append(faults, p.registry.Register(p.cluster.waker.Collector()))
	}
	if p.cluster.nudger != nil {
		faults = append(faults, p.registry.Register(p.cluster.nudger.Collector()))
	}
	if p.agents != nil {
		faults = append(faults, p.registry.Register(p.agents))
	}
	if p.keda != nil {
		faults = append(faults, p.registry.Register(p.keda))
	}
	if p.console != nil {
		faults = append(faults, p.console.Register(p.registry))
	}
	if p.relay != nil {
		faults = append(faults, p.registry.Register(p.relay))
	}
	if p.otlp != nil {
		faults = append(faults, p.registry.Register(p.otlp))
	}
	if r := &p.replication; r.bus != nil {
		faults = append(faults, p.registry.Register(r.bus), p.registry.Register(r.replica))
	}
	return errors.Join(faults...)
}
