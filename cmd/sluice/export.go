package main

import (
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/export"
	"github.com/sluice-metrics/sluice/metric"
)

// exportSource is the merged answers for exports.
type exportSource struct {
	merged  *aggregate.Merged
	freshen func()
	alive   func(metric.Object) bool // nil: all objects are
}

func (p *dataPath) exportSource() export.Source {
	s := exportSource{merged: p.merged, freshen: p.statsd.Freshen}
	if p.cluster.view != nil {
		s.alive = p.cluster.view.Alive
	}
	return s
}

// exports reports whether this replica is the one that sends all series to a Collector, and has them.
func (p *dataPath) exports() bool {
	ready, _ := p.answers()
	return ready && p.merged.First()
}

// Families implements export.Source. It has the datagrams applied first that sockets still gather.
func (s exportSource) Families(match func(*metric.Family) bool) []metric.Family {
	s.freshen()
	return s.merged.Families(match)
}

// Reader implements export.Source.
func (s exportSource) Reader() export.Reader { return s.merged.NewExport(s.alive) }
