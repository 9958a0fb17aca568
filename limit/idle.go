package limit

import (
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// idleEvery is how often idle slots are looked for where something was refused.
const idleInterval = 10 * time.Second

// yieldAfter is how long a metric has to be idle before it yields its slot.
const idleAfter = time.Hour

// askAgainEvery is how often what was refused asks again: the table remembers refusals, and what turned idle since would
// not yield to anybody.
const readmitInterval = time.Minute

// askAgain lets what was refused ask again, if there is any.
func (b *Registry) readmitRejected() {
	for i := range b.shards {
		if b.shards[i].anyRejected() {
			b.table.Readmit()
			return
		}
	}
}

func (s *shard) anyRejected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.all() {
		if len(one.rejected()) > 0 {
			return true
		}
	}
	return false
}

// candidate is a slot that may be idle, as it was when its scope was looked at.
type idleCandidate struct {
	key     quotaKey
	name    string
	since   uint32
	objects []metric.Object
}

// yieldIdle takes slots away that were idle for long, in scopes where something was refused.
func (b *Registry) evictIdle() {
	for i := range b.shards {
		for _, c := range b.idleCandidates(&b.shards[i]) {
			if b.isIdle(c) {
				b.withQuota(c.key, func(s *quota) {
					// Another one of that name is younger: what is idle for so long was not taken a moment ago.
					if one := s.slot(c.name); one != nil && one.since == c.since && !one.evicted {
						b.evictLocked(s, one, fmt.Sprintf("%q lost its place: it got no sample for %s, and another metric was refused", c.name, idleAfter))
					}
				})
			}
		}
	}
	b.runJobs()
}

// candidates are what may be idle. The table is asked without the lock, which it may hold its own locks to wait for.
func (b *Registry) idleCandidates(shard *shard) (all []idleCandidate) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for s := range shard.all() {
		if s.extras == nil || !s.extras.idleWanted {
			continue
		}
		s.extras.idleWanted = false
		for one := range s.taken() {
			if !one.evicted && !b.namedByAutoscaler(s, one) {
				all = append(all, idleCandidate{key: s.key, name: one.name, since: one.since, objects: one.objects(s.key)})
			}
		}
	}
	return all
}

func (b *Registry) isIdle(c idleCandidate) bool {
	for _, o := range c.objects {
		if b.table.Idle(o, c.name) <= idleAfter {
			return false
		}
	}
	return len(c.objects) > 0
}
