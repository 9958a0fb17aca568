package group

import (
	"fmt"
	"time"
)

// Changed returns the groups that were made, changed or deleted since the last call, or all of them.
func (gs *Groups) Changed(all bool) (keys []Hash) {
	for i := range gs.shards {
		s := &gs.shards[i]
		s.mu.Lock()
		if all {
			for h := range s.groups {
				s.changed[h] = struct{}{}
			}
		}
		for h := range s.changed {
			keys = append(keys, h)
		}
		clear(s.changed)
		s.mu.Unlock()
	}
	return keys
}

// AppendDocument appends a group as it is now; false: it is not there any more. It waits for a push that is under way: the
// table may have been asked before that began, but not after it changed the table and before it changed the group.
func (gs *Groups) AppendDocument(dst []byte, key Hash) ([]byte, bool) {
	g := gs.lockThere(key)
	if g == nil {
		return dst, false
	}
	defer g.mu.Unlock()
	c := g.contents.Load()
	if c == nil {
		return dst, false
	}
	return appendDocument(dst, g, c), true
}

// RestoreDocument takes back what AppendDocument appended. Its series are the table's own to restore. It is called before
// all other methods.
func (gs *Groups) RestoreDocument(key Hash, value []byte) error {
	g, c, err := readDocument(value)
	if err != nil {
		return err
	}
	if g.hash = g.key.Hash(); g.hash != key {
		return fmt.Errorf("%w: it is another group's", errDocument)
	}
	s := gs.shard(key)
	s.mu.Lock()
	if s.groups[key] != nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: it is there twice", errDocument)
	}
	gs.count.Add(1)
	g.usage = gs.tally.enter(holder(g.about), g.key, -1) // what was taken stays taken, whatever is configured now
	s.groups[key] = g
	s.mu.Unlock()
	gs.date(g, c)
	gs.setLocked(g, c)
	return nil
}

// date enters when a restored time to live began. Where the document does not say, its dates are compared with the
// machine's clock, once.
func (gs *Groups) date(g *group, c *contents) {
	now := gs.table.Lifetime()
	if c.began == 0 && c.ttl != 0 {
		c.began = max(now-max(time.Since(time.Unix(0, c.from())), 0), 1)
		gs.markLocked(g)
	}
	c.began = min(c.began, now)
}
