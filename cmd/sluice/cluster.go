package main

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/identity"
	"github.com/sluice-metrics/sluice/limit"
	"github.com/sluice-metrics/sluice/receiver"
	"golang.org/x/sync/errgroup"
)

// clusterSide is what stands beside the path of samples in a cluster: what is known of its objects, who holds which slot
// of a limit, and the samples whose sender is not known yet. All of it is nil standalone.
type clusterSide struct {
	client  *cluster.Client
	view    *cluster.View
	book    *limit.Book
	pending *receiver.Pending
	// readmit is set when something may be let in that was refused.
	readmit atomic.Bool
	// settled is set once the table was held to what the cluster knows: from then on answers are whole.
	settled atomic.Bool
}

// connect makes the view. It reaches for no server: one that is away is waited for by what needs it.
func (p *dataPath) connect(context.Context) (err error) {
	if p.cfg.standalone {
		return nil
	}
	c := p.cfg.cluster
	c.Version, _ = built()
	if p.cluster.client, err = cluster.Connect(c, p.log); err != nil {
		return err
	}
	p.cluster.view, err = cluster.NewView(p.cluster.client, c, p.log)
	return err
}

// identify makes the resolver: in a cluster it asks the view.
func (p *dataPath) identify() *identity.Resolver {
	if view := p.cluster.view; view != nil {
		return identity.New(p.cfg.identity, view, view)
	}
	return identity.New(p.cfg.identity, adapter.NewResources(), nil)
}

// joinCluster lets the table and the view know of each other.
func (p *dataPath) joinCluster() {
	c := &p.cluster
	if c.view == nil {
		return
	}
	c.book = limit.New(p.cfg.limit, c.view, p.table, c.view, p.log)
	p.table.Limit(c.book)
	c.pending = receiver.NewPending(p.cfg.receiver.Pending, receiver.PendingParts{
		NewApplier: p.newApplier, Senders: c.view, Logger: p.log, Explain: p.resolver.Explain,
	})
	c.view.Observe(cluster.Observer{
		PodKnown:         func(addresses []netip.Addr) { c.pending.Known(addresses...) },
		ObjectGone:       c.book.Gone,
		LimitsChanged:    c.book.LimitsChanged,
		AskedChanged:     c.book.AskedChanged,
		ObjectKnown:      func() { c.readmit.Store(true) },
		ResourcesChanged: func() { c.readmit.Store(true) },
	})
}

// settlePoll is how often it is looked whether the cluster is known.
const settlePoll = 50 * time.Millisecond

// runCluster follows the cluster until ctx ends.
func (p *dataPath) runCluster(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.cluster.view.Run(ctx) })
	group.Go(func() error {
		p.settle(ctx)
		p.readmit(ctx)
		return nil
	})
	return group.Wait()
}

// readmitEvery bounds how often all that was refused may ask again because objects appeared: a cluster makes many at once.
const readmitEvery = time.Second

// readmit lets what was refused ask again, until ctx ends: it may have spoken of an object that was not there yet.
func (p *dataPath) readmit(ctx context.Context) {
	tick := time.NewTicker(readmitEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if p.cluster.readmit.Swap(false) {
				p.table.Readmit()
			}
		}
	}
}

// settle holds what was restored to the cluster, as soon as that is known: what lost its object while nobody looked goes,
// and limits apply.
func (p *dataPath) settle(ctx context.Context) {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for began := time.Now(); ; {
		if synced, _ := p.cluster.view.Synced(); synced {
			gone := p.table.Prune(p.cluster.view.Alive)
			p.cluster.book.Settle()
			p.cluster.settled.Store(true)
			p.log.Info("the cluster is known", "took", time.Since(began).Round(time.Millisecond), "series", p.table.Series(), "seriesOfGoneObjects", gone)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// state is the cluster's line of /readyz, and what the API waits for.
func (c *clusterSide) state() (bool, string) {
	synced, detail := c.view.Synced()
	return synced && c.settled.Load(), detail
}
