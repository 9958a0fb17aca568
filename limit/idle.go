package limit

import (
	"fmt"
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
func (b *Registry) askAgain() {
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
	for one := range s.all() {
		if len(one.refused()) > 0 {
			return true
		}
	}
	return false
}

// candidate is a slot that may be idle, as it was when its scope was looked at.
type candidate struct {
	key     scopeKey
	name    string
	since   uint32
	objects []metric.Object
}

// yieldIdle takes slots away that were idle for long, in scopes where something was refused.
func (b *Registry) yieldIdle() {
	for i := range b.shards {
		for _, c := range b.candidates(&b.shards[i]) {
			if b.idle(c) {
				b.with(c.key, func(s *scope) {
					// Another one of that name is younger: what is idle for so long was not taken a moment ago.
					if one := s.find(c.name); one != nil && one.since == c.since && !one.leaving {
						b.evictLocked(s, one, fmt.Sprintf("%q lost its place: it got no sample for %s, and another metric was refused", c.name, yieldAfter))
					}
				})
			}
		}
	}
	b.work()
}

// candidates are what may be idle. The table is asked without the lock, which it may hold its own locks to wait for.
func (b *Registry) candidates(shard *shard) (all []candidate) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for s := range shard.all() {
		if s.rare == nil || !s.rare.wanted {
			continue
		}
		s.rare.wanted = false
		for one := range s.held() {
			if !one.leaving && !b.asked(s, one) {
				all = append(all, candidate{key: s.key, name: one.name, since: one.since, objects: one.objects(s.key)})
			}
		}
	}
	return all
}

func (b *Registry) idle(c candidate) bool {
	for _, o := range c.objects {
		if b.table.Idle(o, c.name) <= yieldAfter {
			return false
		}
	}
	return len(c.objects) > 0
}
