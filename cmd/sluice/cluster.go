package main

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/identity"
	"github.com/sluice-metrics/sluice/limit"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/workload"
	"golang.org/x/sync/errgroup"
)

// clusterSide is what stands beside the path of samples in a cluster: what is known of its objects, who holds which slot
// of a limit, and the samples whose sender is not known yet. All of it is nil standalone.
type clusterSide struct {
	client  *cluster.Client
	view    *cluster.View
	book    *limit.Registry
	pending *pending.Buffer
	// pushed remembers what the pods of each workload have pushed.
	pushed *workload.Tracker
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
	c.Version = sluice.Version
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

// The receiver finds SenderPrefetcher by a type assertion, which would fail silently.
var _ receiver.SenderPrefetcher = (*cluster.View)(nil)

// joinCluster lets the table and the view know of each other.
func (p *dataPath) joinCluster() {
	c := &p.cluster
	if c.view == nil {
		return
	}
	c.book = limit.New(p.cfg.limit, c.view, p.table, c.view, p.log)
	p.table.SetAdmission(c.book)
	c.pushed = workload.New(c.view)
	p.table.SetObserver(c.pushed)
	c.pending = pending.New(p.cfg.receiver.Pending, pending.Parts{
		NewApplier: func() pending.Applier { return p.newApplier() }, Senders: c.view, Logger: p.log, Explain: p.resolver.Explain, Blind: c.view.Outage,
	})
	c.view.Observe(c.observer())
}

// trust is what HTTP clients are told of: who they are to the resolver, and what the book says of their limits.
type trust struct {
	*identity.Resolver
	book *limit.Registry
}

// ExplainLimit implements push.Trust.
func (t trust) ExplainLimit(s *metric.Sample) string {
	var about metric.Description
	if t.Describe(s, &about) != metric.Applied {
		return ""
	}
	return t.book.Explain(about.Object, metric.Borrow(s.Name))
}

// observer is what follows from changes in the cluster.
func (c *clusterSide) observer() cluster.Observer {
	mayBeLetIn := func() { c.readmit.Store(true) }
	return cluster.Observer{
		SendersChanged: func(addresses []netip.Addr) {
			c.pending.Known(addresses...)
			mayBeLetIn() // a container that cannot be resolved yet is no claim, so its lines may have been refused
		},
		ObjectGone:         c.book.ObjectGone,
		LimitsChanged:      c.book.LimitsChanged,
		AutoscalersChanged: c.book.AutoscalersChanged,
		ObjectAdded:        mayBeLetIn,
		ResourcesChanged:   mayBeLetIn,
	}
}

// settlePoll is how often it is looked whether the cluster is known.
const settlePoll = 50 * time.Millisecond

// runCluster follows the cluster until ctx ends.
func (p *dataPath) runCluster(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.cluster.view.Run(ctx) })
	group.Go(func() error {
		p.settle(ctx)
		p.follow(ctx)
		return nil
	})
	return group.Wait()
}

// readmitEvery bounds how often all that was refused may ask again because objects appeared: a cluster makes many at once.
const readmitEvery = time.Second

// pruneEvery is how often the table is held to the cluster. Series go when the view tells that their object is gone; but
// when a kind is watched late, it never knew which of its objects went before.
const pruneEvery = time.Minute

// follow lets what was refused ask again, for it may have spoken of an object that was not there yet, and has series removed
// whose object is not there any more, until ctx ends.
func (p *dataPath) follow(ctx context.Context) {
	readmit, prune := time.NewTicker(readmitEvery), time.NewTicker(pruneEvery)
	defer readmit.Stop()
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-readmit.C:
			p.cluster.pushed.ResolveOwners()
			if p.cluster.readmit.Swap(false) {
				p.table.RetryRejected()
			}
		case <-prune.C:
			if gone := p.table.Prune(p.cluster.view.Alive); gone > 0 {
				p.log.Info("series of objects that are gone were removed", "series", gone)
			}
			p.cluster.pushed.Expire()
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
			p.cluster.book.Enforce()
			p.table.ReplaySeries("pods") // a database of before workloads were remembered has series alone
			p.cluster.pushed.ResolveOwners()
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
