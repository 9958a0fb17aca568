package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Changed returns the groups that were created, changed or deleted since the last call, or all
// groups.
func (gs *Groups) Changed(all bool) (keys []Hash) {
	for i := range gs.shards {
		s := &gs.shards[i]
		s.mu.Lock()
		if all {
			for h := range s.groups {
				s.changed[h] = struct{}{}
			}
			for h := range s.tombstones {
				s.changed[h] = struct{}{}
			}
		}
		keys = slices.AppendSeq(keys, maps.Keys(s.changed))
		clear(s.changed)
		s.mu.Unlock()
	}
	return keys
}

// AppendDocument appends a group's current document; it returns false if the group does not exist.
// It waits for a push in progress: the table may have been saved before that push, but not between
// its change of the table and its change of the group.
func (gs *Groups) AppendDocument(dst []byte, key Hash) ([]byte, bool) {
	g := gs.lockExisting(key)
	if g == nil {
		if ended := gs.tombstone(key); ended.stamp != 0 {
			return appendTombstone(dst, key, ended), true
		}
		return dst, false
	}
	defer g.mu.Unlock()
	c := g.contents.Load()
	if c == nil {
		return dst, false
	}
	return appendDocument(dst, g, c), true
}

// RestoreDocument restores the output of AppendDocument. The table restores the series itself. It
// must be called before all other methods.
func (gs *Groups) RestoreDocument(key Hash, value []byte) error {
	if isTombstone(value) {
		return gs.restoreTombstone(key, value)
	}
	g, c, err := readDocument(value)
	if err != nil {
		return err
	}
	gs.restoreVersions(c)
	if g.hash = g.key.Hash(); g.hash != key {
		return fmt.Errorf("%w: the key is of another group", errDocument)
	}
	s := gs.shard(key)
	s.mu.Lock()
	if s.groups[key] != nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: the group exists twice", errDocument)
	}
	gs.count.Add(1)
	g.usage = gs.usage.addGroup(g.key, g.about, -1) // no limit: an accepted group stays
	s.groups[key] = g
	s.mu.Unlock()
	gs.setBegan(g, c)
	gs.setLocked(g, c)
	return nil
}

// RestoreDone removes restored series of groups that no restored group has, and returns their number.
func (gs *Groups) RestoreDone() int {
	return gs.table.EndUngrouped(func(has func(o metric.Object, name string, sets []metric.Labels)) {
		var s sampleBuilder
		var sets []metric.Labels
		for i := range gs.shards {
			for _, g := range gs.shards[i].groups {
				for _, f := range g.contents.Load().families {
					sets = sets[:0]
					for j := range f.Metrics {
						sets = append(sets, s.labelSet(&g.about, f, j))
					}
					has(g.about, f.Name, sets)
				}
			}
		}
	})
}

func (gs *Groups) restoreTombstone(key Hash, value []byte) error {
	h, ended, err := readTombstone(value)
	if err == nil && h != key {
		err = fmt.Errorf("%w: the key is of another deletion", errDocument)
	}
	if err == nil && gs.replication != nil {
		gs.setTombstone(h, ended)
	}
	return err
}

// setBegan sets the start of a restored TTL. A document without it is dated once, by the wall
// clock.
func (gs *Groups) setBegan(g *group, c *contents) {
	now := gs.table.Lifetime()
	if c.began == 0 && c.ttl != 0 {
		c.began = max(now-max(time.Since(time.Unix(0, c.from())), 0), 1)
		gs.markLocked(g)
	}
	c.began = min(c.began, now)
}
