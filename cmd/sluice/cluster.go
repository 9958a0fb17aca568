package main

import (
	"context"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/adapter/autoscaler"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/wake"
	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/customkind"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/limit"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/identity"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"golang.org/x/sync/errgroup"
)

// clusterSide is the part of the path that exists in a cluster only: the cluster view, the limits,
// and the pending samples. Standalone, all of it is nil.
type clusterSide struct {
	client  *cluster.Client
	view    *cluster.View
	limits  *limit.Registry
	pending *pending.Buffer
	// rejections writes Events about samples that are rejected for identity.
	rejections *identity.Rejections
	// workloads remembers what the pods of each workload have pushed.
	workloads *rollup.Tracker
	// namespaces remembers the UIDs of namespaces.
	namespaces *namespaces
	// autoscalers reads what autoscalers get.
	autoscalers *autoscaler.Watcher
	// waker sets first replicas, by means of firstReplicas; nil: off.
	waker         *wake.Waker
	firstReplicas *cluster.FirstReplicas
	// nudger has controllers look at pushes, by means of nudges; nil: off.
	nudger *wake.Nudger
	nudges *cluster.Nudges
	// taints are removed once a node's agent is connected; nil: off.
	taints *cluster.StartupTaints
	// policies restrict who may read external metrics.
	policies *customkind.Policies
	// readmit is set when a rejected sample may now be admitted.
	readmit atomic.Bool
	// compared is set once what ended namespaces had is removed from the restored table: it may be read from then
	// on. reconciled is set once it is reconciled with all of the cluster view: responses are complete from then on.
	compared, reconciled atomic.Bool
}

// connect makes the view. It sends no request: the API server may be away at the start.
func (p *dataPath) connect(context.Context) (err error) {
	if p.cfg.standalone {
		return nil
	}
	c := p.cfg.cluster
	c.Version = sluice.Version
	if p.cluster.client, err = cluster.Connect(c, p.log); err != nil {
		return err
	}
	if p.cluster.view, err = cluster.NewView(p.cluster.client, c, p.log); err != nil {
		return err
	}
	if p.cfg.api.ResourceMetrics {
		p.usage = &clusterUsage{usage.NewLatest(), p.cluster.view, p}
	}
	if p.cfg.wake.Enabled {
		p.cluster.firstReplicas, err = cluster.NewFirstReplicas(p.cluster.client, p.cluster.view)
	}
	if err == nil && p.cfg.instant.Enabled {
		p.cluster.nudges, err = cluster.NewNudges(p.cluster.client, p.cluster.view)
	}
	if err == nil && p.cfg.agents.StartupTaint {
		p.cluster.taints, err = cluster.NewStartupTaints(p.cluster.client, p.log)
	}
	return err
}

// identify makes the resolver; in a cluster it uses the view.
func (p *dataPath) identify() *identity.Resolver {
	if view := p.cluster.view; view != nil {
		return identity.New(p.cfg.identity, view, view)
	}
	return identity.New(p.cfg.identity, builtin.New(), nil)
}

// describe returns the describer of samples; in a cluster it writes Events about rejected ones.
func (p *dataPath) describe() aggregate.Describer {
	if p.cluster.view == nil {
		return p.resolver.Describe
	}
	p.cluster.rejections = identity.NewRejections(p.resolver, p.cluster.view)
	return p.cluster.rejections.Describe
}

// joinCluster connects the table and the view.
func (p *dataPath) joinCluster() {
	c := &p.cluster
	if c.view == nil {
		return
	}
	c.limits = limit.New(p.cfg.limit, limitCluster{c.view, p.rules}, limitTable{p.table, &c.readmit}, c.view, p.log)
	p.table.SetAdmission(c.limits)
	c.workloads = rollup.NewTracker(c.view)
	p.table.SetObserver(c.workloads)
	c.namespaces = newNamespaces()
	c.pending = pending.New(p.cfg.receiver.Pending, pending.Parts{
		NewApplier: func() pending.Applier { return p.table.NewWriter() }, Senders: c.view, Logger: p.log,
		Explain: p.whyRejected, Blind: c.view.Outage, Rejections: p.rejections,
	})
	c.policies = customkind.WatchPolicies(c.view, policy.New(p.table.DefaultWindow()), c.reconciled.Load)
	c.autoscalers = p.watchAutoscalers()
	c.waker, c.nudger = p.wakeTargets(), p.nudgeControllers()
	p.rules.Changed = c.rulesChanged
	customkind.WatchRules(c.view, p.rules, c.policies)
	c.view.Observe(c.observer())
}

// trust explains to HTTP clients their identity and their limits.
type trust struct {
	*identity.Resolver
	limits *limit.Registry
}

// ExplainLimit implements push.Trust.
func (t trust) ExplainLimit(s *metric.Sample) string {
	var about metric.Description
	if t.Describe(s, &about) != metric.Applied {
		return ""
	}
	return t.limits.Explain(about.Object, metric.Borrow(s.Name))
}

// whyRejected says why a sample was rejected for its sender, its kind or a limit, in the words of the Event
// and of the answer to HTTP clients. It decides anew, so it is for records and log lines.
func (p *dataPath) whyRejected(reason metric.Reason, s *metric.Sample) string {
	switch {
	case reason == metric.Identity:
		return p.resolver.Explain(s)
	case reason == metric.KindConflict:
		if there := p.kindOf(s); there != metric.NoKind {
			return strconv.Quote(metric.Truncate(string(s.Name), maxShownName)) + " " + there.Conflict(s.Kind)
		}
		return ""
	case reason != metric.OverLimit:
		return ""
	case p.cluster.limits == nil:
		return "new series over a limit: " + p.cfg.seriesBounds()
	}
	if why := (trust{p.resolver, p.cluster.limits}).ExplainLimit(s); why != "" {
		return why
	}
	return "new series over a limit that has room again, or of the process: " + p.cfg.seriesBounds()
}

// maxShownName is the longest name of a metric in a message.
const maxShownName = 256

// kindOf returns the kind of the series that conflicts with a sample; metric.NoKind: there is none
// any more.
func (p *dataPath) kindOf(s *metric.Sample) metric.Kind {
	var about metric.Description
	if p.resolver.Describe(s, &about) != metric.Applied {
		return metric.NoKind
	}
	if there := p.table.KindOf(&about.Object, metric.Borrow(s.Name)); there != s.Kind {
		return there
	}
	return metric.NoKind
}

// limitTable is the table for limits.
type limitTable struct {
	*aggregate.Table
	readmit *atomic.Bool
}

// RetryRejected implements limit.Table: once a second, as for all other causes. Each author may change an autoscaler at any
// pace, and all rejected series of all namespaces ask again.
func (t limitTable) RetryRejected() { t.readmit.Store(true) }

// observer reacts to changes in the cluster.
func (c *clusterSide) observer() cluster.Observer {
	readmit := func() { c.readmit.Store(true) }
	o := cluster.Observer{
		SendersChanged: func(addresses []netip.Addr) {
			c.pending.Known(addresses...)
			readmit() // a claim by an unknown container is ignored, so its lines may have been rejected
		},
		ObjectGone: func(o metric.Object) {
			c.limits.ObjectGone(o)
			c.rejections.ObjectGone(o)
			c.namespaces.gone(o)
		},
		LimitsChanged: c.limits.LimitsChanged,
		AutoscalersChanged: func(namespace string) {
			c.limits.AutoscalersChanged(namespace)
			c.autoscalers.Changed()
		},
		ObjectAdded: func(o metric.Object) {
			c.namespaces.added(o)
			readmit()
		},
		ResourcesChanged: readmit,
	}
	if c.waker != nil {
		o.WakeChanged = c.waker.Changed
	}
	if c.nudger != nil {
		o.InstantChanged = c.nudger.Changed
	}
	return o
}

// reconcilePoll is the interval of checks for a synced view.
const reconcilePoll = 50 * time.Millisecond

// runCluster runs the view, and keeps the table in line with it, until ctx ends.
func (p *dataPath) runCluster(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.cluster.view.Run(ctx) })
	group.Go(func() error {
		p.reconcile(ctx)
		p.follow(ctx)
		return nil
	})
	return group.Wait()
}

// readmitEvery bounds how often rejected samples are reconsidered because objects appeared: a
// cluster makes many at once.
const readmitEvery = time.Second

// pruneEvery is the interval at which series of missing objects are removed. The view already
// reports deleted objects; but when it begins to watch a kind late, it does not know the objects
// deleted before.
const pruneEvery = time.Minute

// follow, until ctx ends, readmits rejected samples, whose object may exist now, and removes series
// whose object is gone.
func (p *dataPath) follow(ctx context.Context) {
	readmit, prune := time.NewTicker(readmitEvery), time.NewTicker(pruneEvery)
	defer readmit.Stop()
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-readmit.C:
			p.cluster.workloads.ResolveOwners()
			if p.cluster.readmit.Swap(false) {
				p.table.RetryRejected()
			}
		case <-p.cluster.namespaces.changed:
			p.endNamespaces()
		case <-prune.C:
			if gone := p.prune(); gone > 0 {
				p.log.Info("removed series of objects that no longer exist", "series", gone)
			}
			p.cluster.workloads.Expire()
			p.endNamespaces()
			p.endFormer() // of namespaces that were not to be listed at the start
		}
	}
}

// prune removes series of objects that are gone, and returns their number.
func (p *dataPath) prune() int { return p.table.Prune(p.cluster.view.MayExist) }

// reconcile waits for the view, then reconciles the restored table with it: series whose object was
// deleted meanwhile are removed, and all that ended namespaces had, and limits apply.
func (p *dataPath) reconcile(ctx context.Context) {
	tick := time.NewTicker(reconcilePoll)
	defer tick.Stop()
	for began := time.Now(); ; {
		p.compareNamespaces()
		if synced, _ := p.cluster.view.Synced(); synced {
			gone := p.prune()
			p.cluster.limits.Enforce()
			p.table.ReplaySeries("pods") // a database of before workloads were remembered has series alone
			p.replication.shadows.replaySeries()
			p.cluster.workloads.ResolveOwners()
			p.cluster.reconciled.Store(true)
			p.log.Info("the cluster is known", "took", time.Since(began).Round(time.Millisecond), "series", p.table.Series(),
				"seriesOfGoneObjects", gone)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-p.cluster.namespaces.changed:
			if p.cluster.compared.Load() {
				p.endNamespaces()
			}
		case <-tick.C:
		}
	}
}

// compareNamespaces removes what ended namespaces had as soon as the namespaces are known, however long the rest of
// the cluster takes: a missing right makes that forever.
func (p *dataPath) compareNamespaces() {
	if !p.cluster.compared.Load() && p.cluster.view.NamespacesRead() {
		p.endNamespaces()
		p.endFormer()
		p.cluster.compared.Store(true)
	}
}

// readable reports whether what the push port and the console answer has nothing of ended namespaces and is complete, and why not;
// nil: always.
func (p *dataPath) readable() func() (bool, string) {
	complete := p.replication.answers()
	if p.cluster.view == nil {
		return complete
	}
	return func() (bool, string) {
		switch {
		case !p.cluster.compared.Load():
			return false, "the namespaces are not known yet: Sluice is reading the cluster"
		case complete == nil:
			return true, ""
		}
		return complete()
	}
}

// state is the line of the cluster in /readyz, and the condition for answering queries.
func (c *clusterSide) state() (bool, string) {
	synced, detail := c.view.Synced()
	return synced && c.reconciled.Load(), detail
}
