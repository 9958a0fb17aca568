package group

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Applier is a goroutine's path into the table (receiver.Applier).
type Applier interface {
	// Apply applies one sample, or returns the reason to reject it. It retains no bytes.
	Apply(*metric.Sample) metric.Reason
	// Quiesce marks a batch boundary.
	Quiesce()
	// Offline comes before a wait, so that memory is reclaimed meanwhile, and Online after it.
	Offline()
	Online()
}

// Table removes series, and has the lifetime clock.
type Table interface {
	// Remove removes the series of an object with the name and one of the label sets.
	Remove(o metric.Object, name string, sets []metric.Labels)
	// Hide hides such series that other replicas have, until those have heard that they were removed.
	Hide(o metric.Object, name string, sets []metric.Labels)
	// EndUngrouped removes the series of groups that each doesn't name, and returns their number.
	EndUngrouped(each func(has func(o metric.Object, name string, sets []metric.Labels))) int
	// Lifetime is a clock that is never set and that continues after a restart: TTLs are measured
	// by it.
	Lifetime() time.Duration
}

// Groups holds all groups. It is safe for concurrent use.
type Groups struct {
	config Config
	table  Table
	shards [shards]shard
	count  atomic.Int64
	bytes  atomic.Int64
	usage  namespaceUsage
	// replication is nil without other replicas. It is set before first use.
	replication *replication

	deleted, expired atomic.Uint64
	removals         atomic.Uint64 // of series from the table
}

const shards = 256

// shard holds the groups whose hash begins with the same byte. The lock is held for map operations
// only.
type shard struct {
	mu      sync.Mutex
	groups  map[Hash]*group
	changed map[Hash]struct{} // since the store's last call
	shared  map[Hash]struct{} // changed here since the last TakeShared; nil: there are no replicas
	// tombstones are the times of deletions; nil: there are no replicas.
	tombstones map[Hash]tombstone
	next       time.Duration // no group ends earlier, on the lifetime clock
}

// New makes an empty Groups. The configuration must be valid.
func New(c Config, t Table) *Groups {
	gs := &Groups{config: c, table: t, usage: namespaceUsage{byNamespace: map[string]*usage{}}}
	for i := range gs.shards {
		gs.shards[i] = shard{groups: map[Hash]*group{}, changed: map[Hash]struct{}{}, next: math.MaxInt64}
	}
	return gs
}

func (gs *Groups) shard(h Hash) *shard { return &gs.shards[h[0]] }

// Count is the number of groups.
func (gs *Groups) Count() int { return int(gs.count.Load()) }

// Bytes is the approximate memory of all groups.
func (gs *Groups) Bytes() int64 { return gs.bytes.Load() }

// lock returns the group of a key to a push, with the lock held. It creates the group if the limits
// allow.
func (gs *Groups) lock(k Key, about metric.Object) (*group, *Rejection) {
	for {
		g, r := gs.findOrAdd(k, about, gs.admit)
		if r != nil {
			return nil, r
		}
		g.turn.Lock()
		g.mu.Lock()
		g.turn.Unlock()
		if !g.removed {
			return g, nil
		}
		g.mu.Unlock()
	}
}

// lockAlways returns the group of a key with the lock held. It creates the group without a limit.
func (gs *Groups) lockAlways(k Key, about metric.Object) *group {
	for {
		g, _ := gs.findOrAdd(k, about, gs.admitAlways)
		g.mu.Lock()
		if !g.removed {
			return g
		}
		g.mu.Unlock()
	}
}

// findOrAdd returns the group of a key, which may be removed meanwhile. It creates the group if admit
// allows.
func (gs *Groups) findOrAdd(k Key, about metric.Object,
	admit func(Key, metric.Object) (*usage, *Rejection)) (*group, *Rejection) {
	h := k.Hash()
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[h]
	if g == nil {
		u, r := admit(k, about)
		if r != nil {
			return nil, r
		}
		g = &group{key: k, hash: h, about: about, usage: u}
		s.groups[h] = g
	}
	return g, nil
}

// admit counts one more group, if the limits allow it.
func (gs *Groups) admit(k Key, about metric.Object) (*usage, *Rejection) {
	if gs.count.Add(1) > int64(gs.config.MaxGroups) {
		gs.count.Add(-1)
		return nil, reject(metric.OverLimit, "group limit (%d) reached; delete groups or push with a TTL",
			gs.config.MaxGroups)
	}
	namespace := about.InNamespace()
	limit, _ := gs.config.share(namespace)
	u := gs.usage.addGroup(k, about, limit)
	if u == nil {
		gs.count.Add(-1)
		return nil, reject(metric.OverLimit, "group limit (%d) of namespace %s reached; delete groups or push with a TTL",
			limit, namespace)
	}
	return u, nil
}

// admitAlways counts one more group without a limit: another replica has admitted it.
func (gs *Groups) admitAlways(k Key, about metric.Object) (*usage, *Rejection) {
	gs.count.Add(1)
	return gs.usage.addGroup(k, about, -1), nil
}

// lockExisting is lock for an existing group; nil: there is none.
func (gs *Groups) lockExisting(h Hash) *group {
	s := gs.shard(h)
	s.mu.Lock()
	g := s.groups[h]
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	g.mu.Lock()
	if g.removed {
		g.mu.Unlock()
		return nil
	}
	return g
}

// markLocked marks a group as changed, before or after the change. The store reads a group's
// document under the group's lock and so gets the changed group.
func (gs *Groups) markLocked(g *group) {
	s := gs.shard(g.hash)
	s.mu.Lock()
	s.changed[g.hash] = struct{}{}
	s.mu.Unlock()
}

// setLocked sets a group's contents.
func (gs *Groups) setLocked(g *group, c *contents) {
	before := int64(0)
	if old := g.contents.Load(); old != nil {
		before = old.bytes
	}
	gs.bytes.Add(c.bytes - before)
	g.usage.bytes.Add(c.bytes - before)
	g.contents.Store(c)
	if e := c.ends(); e != 0 {
		s := gs.shard(g.hash)
		s.mu.Lock()
		s.next = min(s.next, e)
		s.mu.Unlock()
	}
}

// Delete removes a group and its series. It returns false if there is none. about is the object that who deletes may
// delete groups of: its namespace's share has the deletion of a group that is unknown here, whatever the key names.
func (gs *Groups) Delete(k Key, about metric.Object) bool {
	g := gs.lockExisting(k.Hash())
	if g == nil && gs.replication != nil { // another replica may have it
		g = gs.lockAlways(k, about)
	}
	if g == nil {
		return false
	}
	defer g.mu.Unlock()
	existed := g.contents.Load() != nil
	gs.endLocked(g)
	if existed {
		gs.deleted.Add(1)
	}
	return existed
}

// Wipe removes the groups that may selects, and returns their number. Nil selects all.
func (gs *Groups) Wipe(may func(about metric.Object) bool) (n int) {
	for i := range gs.shards {
		for _, g := range gs.shards[i].all() {
			if may != nil && !may(g.about) {
				continue
			}
			g.mu.Lock()
			if !g.removed {
				gs.endLocked(g)
				n++
			}
			g.mu.Unlock()
		}
	}
	gs.deleted.Add(uint64(n))
	return n
}

// EndNamespace removes what was pushed to the groups about a namespace before a moment, and returns the
// number of groups that it ended.
func (gs *Groups) EndNamespace(namespace string, before time.Time) (n int) {
	ended := version{stamp: before.UnixMilli()}
	for i := range gs.shards {
		for _, g := range gs.shards[i].all() {
			if g.about.InNamespace() != namespace {
				continue
			}
			g.mu.Lock()
			if !g.removed && gs.endOlderLocked(g, ended) {
				n++
			}
			g.mu.Unlock()
		}
	}
	gs.deleted.Add(uint64(n))
	return n
}

// clocksDiffer is how far a time may be to come at another replica.
const clocksDiffer = 2 * time.Second

// endOlderLocked removes what is older than a version, and reports whether that is all of the group. It is all if the clock was set back
// since a push: then the times of the group say nothing.
func (gs *Groups) endOlderLocked(g *group, ended version) (gone bool) {
	c := g.contents.Load()
	if c == nil { // its first push is in progress
		return false
	}
	own := *c
	if gs.replication == nil {
		own.versions = versionsByTime(c, "")
	}
	if newest := own.versions.newest(); newest.stamp > gs.now().Add(clocksDiffer).UnixMilli() {
		ended = newest
	}
	next, gone := join(&own, &contents{versions: &versions{ended: ended}})
	switch {
	case gone && gs.replication == nil:
		gs.removeLocked(g)
	case gone:
		gs.buryLocked(g, ended)
		gs.shareLocked(g)
	case len(next.families) < len(c.families):
		gs.markLocked(g)
		gs.shareLocked(g)
		gs.updateTable(g, &own, next)
		if gs.replication == nil {
			next.versions = nil
		}
		next.bytes = g.size(next)
		gs.setLocked(g, next)
	}
	return gone
}

func (gs *Groups) now() time.Time {
	if gs.replication == nil {
		return time.Now()
	}
	return gs.replication.now()
}

func (s *shard) all() []*group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.groups))
}

// removeLocked removes a group's series from the table and the group from its shard.
func (gs *Groups) removeLocked(g *group) {
	gs.markLocked(g)
	if c := g.contents.Load(); c != nil {
		gs.bytes.Add(-c.bytes)
		g.usage.bytes.Add(-c.bytes)
		for _, f := range c.families {
			gs.remove(&g.about, f, nil)
		}
		gs.hideRemoved(&g.about, c, nil)
	}
	g.removed = true
	s := gs.shard(g.hash)
	s.mu.Lock()
	delete(s.groups, g.hash)
	s.mu.Unlock()
	gs.count.Add(-1)
	gs.usage.removeGroup(g)
}

// sweepEvery is how long a group may outlive its TTL.
const sweepEvery = time.Second / 4

// Run removes expired groups until ctx ends.
func (gs *Groups) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	old := time.NewTicker(time.Hour)
	defer old.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			gs.Sweep(gs.table.Lifetime())
		case now := <-old.C:
			for i := range gs.shards {
				gs.shards[i].forgetOld(now)
			}
		}
	}
}

// Sweep removes groups that have expired on the lifetime clock, and returns their number. It looks
// only at shards that may have one.
func (gs *Groups) Sweep(now time.Duration) (n int) {
	for i := range gs.shards {
		n += gs.sweepShard(&gs.shards[i], now)
	}
	gs.expired.Add(uint64(n))
	return n
}

func (gs *Groups) sweepShard(s *shard, now time.Duration) (n int) {
	s.mu.Lock()
	if s.next > now {
		s.mu.Unlock()
		return 0
	}
	s.next = math.MaxInt64
	var over []*group
	for _, g := range s.groups {
		c := g.contents.Load()
		if c == nil {
			continue // its push will set the end
		}
		switch e := c.ends(); {
		case e == 0:
		case e <= now:
			over = append(over, g)
		default:
			s.next = min(s.next, e)
		}
	}
	s.mu.Unlock()
	for _, g := range over {
		g.mu.Lock()
		if c := g.contents.Load(); !g.removed && c.expired(now) { // it was not pushed to meanwhile
			gs.removeLocked(g)
			n++
		}
		g.mu.Unlock()
	}
	return n
}
