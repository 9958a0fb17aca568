package main

import (
	"context"
	"errors"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/export"
	"github.com/sluice-metrics/sluice/metric"
)

// exportSource is the merged answers for exports.
type exportSource struct {
	merged  *aggregate.Merged
	freshen func()
	alive   func(metric.Object) bool // nil: all objects are
	disk    disk
}

// disk is the store.
type disk interface {
	Sync(ctx context.Context) error
	Detail() (ok bool, message string)
}

func (p *dataPath) exportSource() export.Source {
	s := exportSource{merged: p.merged, freshen: p.statsd.Freshen, disk: p.store}
	if p.cluster.view != nil {
		s.alive = p.cluster.view.Alive
	}
	return s
}

// Families implements export.Source. It has the datagrams applied first that sockets still gather.
func (s exportSource) Families(match func(*metric.Family) bool) []metric.Family {
	s.freshen()
	return s.merged.Families(match)
}

// Reader implements export.Source.
func (s exportSource) Reader() export.Reader { return s.merged.NewExport(s.alive) }

// Persist implements export.Source.
func (s exportSource) Persist(ctx context.Context) error { return s.disk.Sync(ctx) }

// Persisting implements export.Source.
func (s exportSource) Persisting() error {
	if ok, detail := s.disk.Detail(); !ok {
		return errors.New(detail)
	}
	return nil
}
