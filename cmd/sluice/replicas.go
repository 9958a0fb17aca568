package main

import (
	"context"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/replica"
	"github.com/sluice-metrics/sluice/replica/deletion"
	"github.com/sluice-metrics/sluice/replica/natsbus"
)

// replication is the part of the path that exists with other replicas only. Without, all of it is
// nil.
//
//	table ── store (flush) ── replica ── natsbus ◄──► other replicas
//	   ▲                         │
//	merged ◄──── shadows ◄───────┘
type replication struct {
	bus     *natsbus.Bus
	epoch   *replica.Epoch // restored with the table
	replica *replica.Replica
	// reconciled reports whether the table has nothing of namespaces that ended.
	reconciled  func() bool
	replicaMade time.Time
	// These two belong to the flush goroutine: whether flushes are published, and whether one is in progress.
	published, flushing bool
	shadows             *shadowList
	// deletions are those of all replicas.
	deletions *deletion.Log
	// storedName is the name of the replica that counted the data folder's data; empty: unknown.
	storedName string
}

// replicate prepares table, groups and deletions for other replicas, before the store restores
// them. The series of shadows count for max-series and max-bytes.
func (p *dataPath) replicate() {
	if !p.cfg.natsbus.Enabled() {
		return
	}
	p.replication.shadows = new(shadowList)
	p.table.CountAlso(p.replication.shadows.usage)
	name := p.cfg.replica().Name
	p.groups.Replicate(name, p.log)
	p.replication.deletions = deletion.New(name, p.merged, p.log)
	p.table.OnStaleElsewhere(p.deleteElsewhere)
}

// deleteElsewhere deletes a series that another replica has, because its client's staleness marker
// came here.
func (p *dataPath) deleteElsewhere(o metric.Object, name string, labels metric.Labels) {
	stale := deletion.Selector{Resource: o.Resource, Namespace: o.Namespace, Object: o.Name, Name: name, Exact: true}
	for key, value := range labels.All() {
		stale.Labels = append(stale.Labels, metric.Label{Key: key, Value: value})
	}
	p.replication.deletions.Add(&stale)
	p.merged.Delete(stale.Query())
}

// storedDocuments are the documents that the store persists.
func (p *dataPath) storedDocuments() documents {
	return documents{
		groups: p.groups, workloads: p.cluster.workloads, namespaces: p.cluster.namespaces,
		deletions: p.replication.deletions, epoch: p.replication.epoch,
	}
}

// openBus connects to the other replicas. They need not be there.
func (p *dataPath) openBus(ctx context.Context) (err error) {
	if !p.cfg.natsbus.Enabled() {
		return nil
	}
	p.replication.epoch = replica.NewEpoch()
	p.replication.bus, err = natsbus.Open(ctx, p.cfg.natsbus, p.log)
	return p.cfg.busFault(err)
}

// openReplica publishes the restored table and follows those of other replicas, once the stages
// run.
func (p *dataPath) openReplica(context.Context) (err error) {
	r := &p.replication
	if r.bus == nil {
		return nil
	}
	r.replicaMade = time.Now()
	r.reconciled = func() bool { return p.cluster.view == nil || p.cluster.reconciled.Load() }
	r.replica, err = replica.New(p.cfg.replica(), replica.Parts{
		Bus: r.bus, Table: p.table, Documents: p.sharedDocuments(), NewShadow: p.newShadow, SetShadows: p.setShadows,
		Relayed: r.deletions.Repeat, Lives: p.replicaLives(), FlushSoon: p.store.FlushSoon, Epoch: r.epoch, Logger: p.log, Wall: func() time.Time { return p.table.Clock.Now().Wall },
	})
	if err == nil {
		p.merged.SetGate(r.replica.Answers)
	}
	return err
}

// sharedDocuments are the documents that replicas exchange.
func (p *dataPath) sharedDocuments() *sharedDocuments {
	return &sharedDocuments{
		groups: p.groups, deletions: p.replication.deletions, flushSoon: p.store.FlushSoon, log: p.log,
	}
}

// syncedReplicas wait for ?sync=all; nil: there are no other replicas.
func (p *dataPath) syncedReplicas() push.Replicas {
	if p.replication.replica == nil {
		return nil
	}
	return replicaSync{p.replication.replica, p.cfg.replica().Name}
}

// replicaLives tells replicas that are cut off from those that have ended; nil: those that are silent have.
func (p *dataPath) replicaLives() func(name string) bool {
	switch {
	case p.cluster.view != nil:
		return p.cluster.view.ReplicaServes
	case p.cfg.natsbus.AssumeCut:
		return func(string) bool { return true }
	}
	return nil
}

// answers reports whether answers are complete; nil: always, because there are no other replicas.
func (r *replication) answers() func() (bool, string) {
	if r.replica == nil {
		return nil
	}
	return r.replica.Answers
}

// replicaSync is this replica for pushes that wait for all others.
type replicaSync struct {
	*replica.Replica
	name string
}

// Name implements push.Replicas.
func (r replicaSync) Name() string { return r.name }

// publishAfter bounds the time in which a restored table isn't published because the cluster is not read.
const publishAfter = 30 * time.Second

// publishes reports whether the table has only what its namespaces have: others would serve what a namespace
// had that was deleted meanwhile. The flush goroutine calls it. All of a flush has the same answer.
func (r *replication) publishes() bool {
	if !r.flushing {
		r.flushing = true
		r.published = r.published || r.reconciled() || time.Since(r.replicaMade) >= publishAfter
	}
	return r.published
}

// PublishDelta implements store.Publisher. The replica is made after the store, and before a flush. Blocks of
// which no delta was published are read whole by others.
func (r *replication) PublishDelta(block int, delta []byte) {
	if r.publishes() {
		r.replica.PublishDelta(block, delta)
	}
}

// PublishWritten implements store.Publisher.
func (r *replication) PublishWritten(n int) {
	if r.publishes() {
		r.replica.PublishWritten(n)
	}
}

// PublishFlush implements store.Publisher.
func (r *replication) PublishFlush(written bool) {
	if r.publishes() {
		r.replica.PublishFlush(written)
	}
	r.flushing = false
}

// setShadows tells readers and the own table which shadows there are, in the order of their
// origins' names. rank is the number of names before the own one.
func (p *dataPath) setShadows(all []replica.Shadow, rank int) {
	shadows := make([]*aggregate.Shadow, len(all))
	for i, one := range all {
		shadows[i] = one.(originShadow).Shadow
	}
	p.merged.SetRank(rank)
	p.merged.SetShadows(shadows)
}

// replica is the configuration of package replica.
func (c *serverConfig) replica() replica.Config {
	return replica.Config{Name: c.natsbus.ReplicaName(), Cluster: c.natsbus.Cluster, Peers: c.natsbus.PeerNames()}
}
