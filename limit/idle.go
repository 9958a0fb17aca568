package limit

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// idleEvery is how often idle slots are looked for where something was refused.
const idleEvery = 10 * time.Second

// yieldAfter is how long a metric has to be idle before it yields its slot.
const yieldAfter = time.Hour

// askAgainEvery is how often what was refused asks again: the table remembers refusals, and what turned idle since would
// not yield to anybody.
const askAgainEvery = time.Minute

// askAgain lets what was refused ask again, if there is any.
func (b *Book) askAgain() {
	for i := range b.shards {
		if b.shards[i].anyRefused() {
			b.table.Readmit()
			return
		}
	}
}

func (s *shard) anyRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.scopes {
		if len(one.refused) > 0 {
			return true
		}
	}
	return false
}

// candidate is a slot that may be idle, as it was when its scope was looked at.
type candidate struct {
	key     scopeKey
	slot    *slot
	objects []metric.Object
}

// yieldIdle takes slots away that were idle for long, in scopes where something was refused.
func (b *Book) yieldIdle() {
	for i := range b.shards {
		for _, c := range b.candidates(&b.shards[i]) {
			if b.idle(c) {
				b.with(c.key, func(s *scope) {
					if slices.Contains(s.slots, c.slot) && !c.slot.leaving {
						b.evictLocked(s, c.slot, fmt.Sprintf("%q lost its place: it got no sample for %s, and another metric was refused", c.slot.name, yieldAfter))
					}
				})
			}
		}
	}
	b.work()
}

// candidates are what may be idle. The table is asked without the lock, which it may hold its own locks to wait for.
func (b *Book) candidates(shard *shard) (all []candidate) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for k, s := range shard.scopes {
		if !s.wanted {
			continue
		}
		s.wanted = false
		for _, one := range s.slots {
			if one.leaving || b.asked(s, one) {
				continue
			}
			c := candidate{key: k, slot: one}
			for o := range one.objects {
				c.objects = append(c.objects, o)
			}
			all = append(all, c)
		}
	}
	return all
}

func (b *Book) idle(c candidate) bool {
	for _, o := range c.objects {
		if b.table.Idle(o, c.slot.name) <= yieldAfter {
			return false
		}
	}
	return len(c.objects) > 0
}
