package group

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Applier is a goroutine's way into the table (receiver.Applier).
type Applier interface {
	// Apply takes one sample, or says why not. It keeps nothing of its bytes.
	Apply(*metric.Sample) metric.Reason
	// Quiesce marks a batch boundary.
	Quiesce()
}

// Table is where series are taken out.
type Table interface {
	// Remove takes out the series of an object that have the name and one of the label sets.
	Remove(o metric.Object, name string, sets []metric.Labels)
	// Lifetime is a clock that nobody sets and that goes on after a restart: times to live are measured by it.
	Lifetime() time.Duration
}

// Groups are all groups. They are safe for use by many goroutines.
type Groups struct {
	config Config
	table  Table
	shards [shards]shard
	count  atomic.Int64
	bytes  atomic.Int64
	tally  tally

	deleted, expired atomic.Uint64
}

const shards = 256

// shard holds the groups whose hash begins with the same byte. Its lock is held for a map's work only.
type shard struct {
	mu      sync.Mutex
	groups  map[Hash]*group
	changed map[Hash]struct{} // since the store asked last
	next    time.Duration     // no group ends before, by the lifetime clock
}

// New makes an empty Groups. The configuration must be valid.
func New(c Config, t Table) *Groups {
	gs := &Groups{config: c, table: t, tally: tally{of: map[string]*usage{}}}
	for i := range gs.shards {
		gs.shards[i] = shard{groups: map[Hash]*group{}, changed: map[Hash]struct{}{}, next: math.MaxInt64}
	}
	return gs
}

func (gs *Groups) shard(h Hash) *shard { return &gs.shards[h[0]] }

// Count is the number of groups, Bytes about what they hold.
func (gs *Groups) Count() int { return int(gs.count.Load()) }

// Bytes is about what all groups hold.
func (gs *Groups) Bytes() int64 { return gs.bytes.Load() }

// lock returns the group of a key with its lock held, making it where there is none and one more may be.
func (gs *Groups) lock(k Key, about metric.Object) (*group, *Rejection) {
	h := k.Hash()
	s := gs.shard(h)
	for {
		s.mu.Lock()
		g := s.groups[h]
		if g == nil {
			u, r := gs.admit(k, about)
			if r != nil {
				s.mu.Unlock()
				return nil, r
			}
			g = &group{key: k, hash: h, about: about, usage: u}
			s.groups[h] = g
		}
		s.mu.Unlock()
		g.mu.Lock()
		if !g.gone {
			return g, nil
		}
		g.mu.Unlock()
	}
}

// admit counts one more group, if there is room for it.
func (gs *Groups) admit(k Key, about metric.Object) (*usage, *Rejection) {
	if gs.count.Add(1) > int64(gs.config.MaxGroups) {
		gs.count.Add(-1)
		return nil, refuse(metric.OverLimit, "there are %d groups, and no more may be: delete some, or let them end by a time to live", gs.config.MaxGroups)
	}
	namespace := holder(about)
	most, _ := gs.config.share(namespace)
	u := gs.tally.enter(namespace, k, most)
	if u == nil {
		gs.count.Add(-1)
		return nil, refuse(metric.OverLimit, "there are %d groups of namespace %s, and one namespace may have no more: delete some, or let them end by a time to live", most, namespace)
	}
	return u, nil
}

// lockThere is lock for a group that must be there; nil: it is not.
func (gs *Groups) lockThere(h Hash) *group {
	s := gs.shard(h)
	s.mu.Lock()
	g := s.groups[h]
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	g.mu.Lock()
	if g.gone {
		g.mu.Unlock()
		return nil
	}
	return g
}

// markLocked says that a group is about to change, or has. The store, which asks for a group's document under the
// group's lock, then sees what it has changed to.
func (gs *Groups) markLocked(g *group) {
	s := gs.shard(g.hash)
	s.mu.Lock()
	s.changed[g.hash] = struct{}{}
	s.mu.Unlock()
}

// setLocked gives a group its contents.
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

// Delete removes a group and its series. False: there was none.
func (gs *Groups) Delete(k Key) bool {
	g := gs.lockThere(k.Hash())
	if g == nil {
		return false
	}
	defer g.mu.Unlock()
	gs.endLocked(g)
	gs.deleted.Add(1)
	return true
}

// Wipe removes the groups that may be removed, and says how many. Nil: all.
func (gs *Groups) Wipe(may func(about metric.Object) bool) (n int) {
	for i := range gs.shards {
		for _, g := range gs.shards[i].all() {
			if may != nil && !may(g.about) {
				continue
			}
			g.mu.Lock()
			if !g.gone {
				gs.endLocked(g)
				n++
			}
			g.mu.Unlock()
		}
	}
	gs.deleted.Add(uint64(n))
	return n
}

func (s *shard) all() []*group {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*group, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, g)
	}
	return all
}

// endLocked takes a group's series out of the table, and the group out of its shard.
func (gs *Groups) endLocked(g *group) {
	gs.markLocked(g)
	if c := g.contents.Load(); c != nil {
		gs.bytes.Add(-c.bytes)
		g.usage.bytes.Add(-c.bytes)
		for _, f := range c.families {
			gs.remove(&g.about, f, nil)
		}
	}
	g.gone = true
	s := gs.shard(g.hash)
	s.mu.Lock()
	delete(s.groups, g.hash)
	s.mu.Unlock()
	gs.count.Add(-1)
	gs.tally.leave(g.usage, g.key)
}

// sweepEvery is how long a group may outlive its time.
const sweepEvery = time.Second / 4

// Run ends the groups whose time to live is over, until ctx ends.
func (gs *Groups) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			gs.Sweep(gs.table.Lifetime())
		}
	}
}

// Sweep ends the groups whose time to live is over by the lifetime clock, and says how many. It looks at the shards only in
// which one may be.
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
			continue // its push will say when it ends
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
		if c := g.contents.Load(); !g.gone && c.over(now) { // it was not pushed to in the meantime
			gs.endLocked(g)
			n++
		}
		g.mu.Unlock()
	}
	return n
}
