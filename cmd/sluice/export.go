package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica"
	"github.com/sluice-metrics/sluice/store"
)

// exportSource is the merged answers for exports.
type exportSource struct {
	merged  *aggregate.Merged
	freshen func()
	alive   func(metric.Object) bool // nil: all objects are
	store   *store.Store
	replica *replica.Replica // nil: there are no others
}

func (p *dataPath) exportSource() export.Source {
	s := exportSource{merged: p.merged, freshen: p.statsd.Freshen, store: p.store, replica: p.replication.replica}
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

// confirmTimeout bounds the wait for other replicas. One that cannot confirm, because it cannot read
// this one's state, has other totals anyway.
const confirmTimeout = 2 * time.Second

// Persist implements export.Source. The next page may be another replica's, so the live ones get what
// was read here, too.
func (s exportSource) Persist(ctx context.Context) error {
	confirmed := make(chan struct{})
	go func() { // both wait for the same flush
		defer close(confirmed)
		if s.replica != nil {
			within, cancel := context.WithTimeout(ctx, confirmTimeout)
			defer cancel()
			_ = s.replica.SyncAll(within)
		}
	}()
	err := s.store.Sync(ctx)
	<-confirmed
	return err
}

// Persisting implements export.Source.
func (s exportSource) Persisting() error {
	if ok, detail := s.store.Detail(); !ok {
		return errors.New(detail)
	}
	if s.replica != nil {
		if name := s.replica.Unwritten(); name != "" {
			return fmt.Errorf("replica %s is not persisting", name)
		}
	}
	return nil
}
