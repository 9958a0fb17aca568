package main

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/replica"
	"github.com/sluice-metrics/sluice/replica/claim"
	"github.com/sluice-metrics/sluice/replica/deletion"
	"github.com/sluice-metrics/sluice/replica/natsbus"
	"github.com/sluice-metrics/sluice/store"
)

// replication is the part of the path that exists with other replicas only. Without, all of it is
// nil.
//
//	table ── store (flush) ── replica ── natsbus ◄──► other replicas
//	   ▲                         │
//	merged ◄──── shadows ◄───────┘
type replication struct {
	bus     *natsbus.Bus
	epoch   *replica.Epoch // restored with the table; agents know that by it, also without other replicas
	replica *replica.Replica
	// reconciled reports whether the table has nothing of namespaces that ended.
	reconciled func() bool
	// These two belong to the flush goroutine: whether flushes are published, and whether one has begun.
	published, flushing bool
	// flushedAt is when the last flush was published, and the one before. It belongs to the flush goroutine, too.
	flushedAt [2]*time.Time
	covered   atomic.Pointer[time.Time] // see publishedTo
	shadows   *shadowList
	// deletions are those of all replicas.
	deletions *deletion.Log
	// claims say which replica has the agent of a node, and scrapes.
	claims *claim.Claims
	others *otherReplicas
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
	p.table.OnOutage(func(since time.Time) bool {
		return replica.RanSince(p.cfg.replica(), p.replication.bus, since)
	})
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
	if p.cfg.natsbus.Enabled() || p.cfg.agents.Enabled() {
		p.replication.epoch = replica.NewEpoch()
	}
	if !p.cfg.natsbus.Enabled() {
		return nil
	}
	p.replication.bus, err = natsbus.Open(ctx, p.cfg.natsbus, p.log)
	return p.cfg.portFault("replica-listen", &p.cfg.natsbus, err)
}

// openReplica publishes the restored table and follows those of other replicas, once the stages
// run.
func (p *dataPath) openReplica(context.Context) (err error) {
	r := &p.replication
	if r.bus == nil {
		return nil
	}
	r.reconciled = func() bool { return p.cluster.view == nil || p.cluster.reconciled.Load() }
	r.claims = claim.New(claim.Parts{
		Name: p.cfg.replica().Name, Process: r.epoch.Incarnation(), Soon: p.store.FlushSoon,
		Lives: func(name string) bool { return r.replica.Hears(name) },
	})
	parts := replica.Parts{
		Bus: r.bus, Table: p.table, Documents: p.sharedDocuments(), NewShadow: p.newShadow, SetShadows: p.setShadows,
		Relayed: r.deletions.Repeat, Lives: p.replicaLives(), FlushSoon: p.store.FlushSoon, Epoch: r.epoch, Logger: p.log,
		Answer: p.answerOther,
		Wall:   func() time.Time { return p.table.Clock.Now().Wall },
	}
	if p.usage != nil {
		parts.Usage = p.usage
	}
	r.replica, err = replica.New(p.cfg.replica(), parts)
	if err == nil {
		p.merged.SetGate(r.replica.Answers)
		r.others = p.askOthers()
	}
	return err
}

// sharedDocuments are the documents that replicas exchange.
func (p *dataPath) sharedDocuments() *sharedDocuments {
	return &sharedDocuments{
		groups: p.groups, deletions: p.replication.deletions, namespaces: p.cluster.namespaces, endFormer: p.endFormer,
		claims: p.replication.claims, flushSoon: p.store.FlushSoon, log: p.log,
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

// publishes reports whether the table has only what its namespaces have: others would serve what a namespace
// had that was deleted meanwhile. Until the cluster was read, that is unknown, and others see this replica as one
// that is away. The flush goroutine calls it. All of a flush has the same answer.
func (r *replication) publishes() bool {
	if !r.flushing {
		r.flushing = true
		r.published = r.published || r.reconciled()
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
		now, covered := time.Now(), r.flushedAt[0]
		if !written { // it may have begun before the last one, within which it was published
			covered = r.flushedAt[1]
		}
		r.flushedAt = [2]*time.Time{&now, r.flushedAt[0]}
		r.covered.Store(covered)
	}
	r.flushing = false
}

// publishedTo returns a moment: what was applied before it was published.
func (r *replication) publishedTo() time.Time {
	if at := r.covered.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// setShadows tells readers and the own table which shadows there are, in the order of their
// origins' names. rank is the number of names before the own one.
func (p *dataPath) setShadows(all []replica.Shadow, rank int) {
	shadows := make([]*aggregate.Shadow, len(all))
	for i, shadow := range all {
		shadows[i] = shadow.(originShadow).Shadow
	}
	p.merged.SetRank(rank)
	p.merged.SetShadows(shadows)
	p.endFormer()
}

// replica is the configuration of package replica.
func (c *serverConfig) replica() replica.Config {
	return replica.Config{Name: c.natsbus.ReplicaName(), Cluster: c.natsbus.Cluster, Peers: c.natsbus.PeerNames()}
}

// sharedDocuments joins the documents that replicas exchange: groups, deletions, claims and in a cluster the UIDs of
// namespaces. The first byte of a key says which.
type sharedDocuments struct {
	groups     *group.Groups
	deletions  *deletion.Log
	namespaces *namespaces // nil: standalone
	claims     *claim.Claims
	endFormer  func() // follows what other replicas share of namespaces
	// flushSoon publishes what documents removed from the table.
	flushSoon func()
	log       *slog.Logger
	loggedAt  atomic.Int64 // Unix nanoseconds
}

const (
	groupKey      = 'g'
	deletionKey   = 'd'
	namespacesKey = 'n'
	claimKey      = 'c'
)

// TakeChanged implements replica.Documents.
func (d *sharedDocuments) TakeChanged() []replica.Document {
	all := joinDocuments(d.groups.TakeShared(), d.deletions.TakeShared(), d.claims.TakeShared())
	if d.namespaces != nil {
		all = append(all, d.namespaces.TakeShared()...)
	}
	return all
}

// All implements replica.Documents.
func (d *sharedDocuments) All() []replica.Document {
	all := joinDocuments(d.groups.AllShared(), d.deletions.AllShared(), d.claims.AllShared())
	if d.namespaces != nil {
		all = append(all, d.namespaces.AllShared()...)
	}
	return all
}

func joinDocuments(groups []group.Document, deletions []deletion.Document, claims []claim.Document) []replica.Document {
	all := make([]replica.Document, 0, len(groups)+len(deletions)+len(claims))
	for _, document := range groups {
		key := keyText(groupKey, document.Key)
		all = append(all, replica.Document{Key: key, Stamp: document.Stamp, Value: document.Value})
	}
	for _, document := range deletions {
		key := keyText(deletionKey, document.Key)
		all = append(all, replica.Document{Key: key, Stamp: document.Stamp, Value: document.Value})
	}
	for _, document := range claims {
		key := keyText(claimKey, document.Key)
		all = append(all, replica.Document{Key: key, Stamp: document.Stamp, Value: document.Value})
	}
	return all
}

func keyText(what byte, key [16]byte) string { return string(append([]byte{what}, key[:]...)) }

// Apply implements replica.Documents. Keys of unknown documents belong to a later version.
func (d *sharedDocuments) Apply(origin string, all []replica.Document) {
	var groups []group.Document
	var deletions []deletion.Document
	var claims []claim.Document
	var damaged error // of a namespace
	for _, document := range all {
		var key [16]byte
		if len(document.Key) != 1+len(key) {
			continue
		}
		copy(key[:], document.Key[1:])
		switch document.Key[0] {
		case groupKey:
			groups = append(groups, group.Document{Key: key, Stamp: document.Stamp, Value: document.Value})
		case deletionKey:
			deletions = append(deletions, deletion.Document{Key: key, Stamp: document.Stamp, Value: document.Value})
		case claimKey:
			claims = append(claims, claim.Document{Key: key, Stamp: document.Stamp, Value: document.Value})
		case namespacesKey:
			if d.namespaces != nil {
				damaged = cmp.Or(damaged, d.namespaces.hear(key, document.Value))
			}
		}
	}
	before := d.groups.Removals() + d.deletions.Removals()
	for _, err := range []error{d.groups.Apply(groups), d.deletions.Apply(deletions), d.claims.Apply(origin, claims), damaged} {
		if err != nil {
			d.warn(origin, err)
		}
	}
	d.endFormer()
	if d.groups.Removals()+d.deletions.Removals() != before {
		d.flushSoon()
	}
}

// warn logs once a minute.
func (d *sharedDocuments) warn(origin string, err error) {
	now := time.Now().UnixNano()
	if last := d.loggedAt.Load(); now-last >= int64(time.Minute) && d.loggedAt.CompareAndSwap(last, now) {
		d.log.Warn("a document of another replica was not applied", "origin", origin, "error", err)
	}
}

// A replica's name belongs to its data. Under another name it would publish the restored table as a
// new origin, while other replicas still hold the shadow of the former one: each value counts twice.

// nameReplica takes the replica's name from the data folder, unless a setting gives one.
func (p *dataPath) nameReplica(context.Context) error {
	if !p.cfg.natsbus.Enabled() {
		return nil
	}
	stored, err := store.ReadReplicaName(p.cfg.store.Dir)
	if err != nil {
		return p.folderFault(err)
	}
	if !natsbus.ValidName(stored) {
		return nil // no replica counted here yet, or none of this version, or a power cut emptied the file
	}
	p.replication.storedName = stored
	host := p.cfg.natsbus.ReplicaName()
	if p.cfg.natsbus.Name != "" || host == stored {
		return nil
	}
	p.log.Info("the replica has the name that its data was counted under, not the host's: under another name the data would count twice",
		"name", stored, "host", host, "folder", p.cfg.store.Dir)
	p.cfg.natsbus.Name = stored
	p.cfg.shareReplicaName()
	return nil
}

// keepReplicaName rejects a name under which restored series would count twice, and stores any other
// one. It precedes all messages to other replicas.
func (p *dataPath) keepReplicaName(context.Context) error {
	name, stored := p.cfg.replica().Name, p.replication.storedName
	if p.replication.bus == nil || name == stored {
		return nil
	}
	if stored != "" && p.table.Series() > 0 {
		return command.Usage(p.cfg.fault("replica-name",
			"is %q, and %s %s has data of the replica %q, which would count twice; "+
				"must be %q, or --data-dir the folder of %q or an empty one", name, p.cfg.as("data-dir"), p.cfg.store.Dir,
			stored, stored, name))
	}
	err := p.store.WriteReplicaName(name)
	if durable.IsFull(err) {
		p.log.Warn("the disk is full, so the data folder doesn't have the replica's name until the next start", "name", name)
		return nil
	}
	return err
}
