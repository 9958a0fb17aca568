package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Run removes what has lost its place, until ctx ends.
func (b *Registry) Run(ctx context.Context) error {
	idle := time.NewTicker(idleInterval)
	defer idle.Stop()
	again := time.NewTicker(readmitInterval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
			b.runJobs()
		case <-idle.C:
			b.evictIdle()
		case <-again.C:
			b.readmitRejected()
		}
	}
}

// later has Run do something: whoever calls holds locks of the table, or must not wait.
func (b *Registry) enqueue(job func()) {
	b.mu.Lock()
	b.jobs = append(b.jobs, job)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Registry) runJobs() {
	b.mu.Lock()
	jobs := b.jobs
	b.jobs = nil
	b.mu.Unlock()
	for _, job := range jobs {
		job()
	}
}

// evictLocked takes a slot away, and has its series removed.
func (b *Registry) evictLocked(s *quota, one *slot, why string) {
	s.evict(one)
	b.metrics.shed.Inc()
	objects, name := one.objects(s.key), one.name
	b.enqueue(func() {
		for _, o := range objects {
			b.table.Shed(o, name)
		}
		b.events.Event(subject(objects[0]), "MetricShed", why)
	})
}

// trimLocked takes slots away until the scope is within its limit: the newest that nobody asks for first. Series beyond
// the limit do not cost an autoscaler its metric; only too many metrics do.
func (b *Registry) enforceLocked(s *quota, limit metric.Limit) {
	unasked := func(one *slot) bool { return !b.namedByAutoscaler(s, one) }
	tooMany := func() bool { return int64(s.metrics) > int64(limit.Metrics) }
	for tooMany() || int64(s.series) > int64(limit.Series) {
		victim := s.newest(unasked)
		if victim == nil && tooMany() {
			victim = s.newest(func(*slot) bool { return true })
		}
		if victim == nil {
			return
		}
		b.evictLocked(s, victim, fmt.Sprintf("%q lost its place: the limit is %d metrics and %d series now", victim.name, limit.Metrics, limit.Series))
	}
}

// Gone says that an object is gone: its series go too, and what is known of its refusals. With a namespace goes all that
// was in it, its external metrics too: another one of the same name inherits nothing.
func (b *Registry) ObjectGone(o metric.Object) {
	whole := o.Resource == "namespaces"
	b.withQuota(quotaKeyOf(&o), func(s *quota) {
		if s.key.pod != "" || whole {
			s.clearRejected()
		}
		var ended []func()
		for one := range s.taken() {
			name := one.name
			for _, held := range one.objects(s.key) {
				if held == o || whole {
					ended = append(ended, func() { b.table.End(held, name) })
				}
			}
		}
		if len(ended) > 0 {
			b.enqueue(func() {
				for _, end := range ended {
					end()
				}
			})
		}
	})
	if whole {
		b.metrics.rejections.DeleteLabelValues(o.Name)
	}
}

// AskedChanged says that autoscalers name other metrics than before.
func (b *Registry) AutoscalersChanged(string) { b.enqueue(b.table.Readmit) }

// LimitsChanged says that a namespace has other limits than before: what is beyond goes, what was refused may come.
func (b *Registry) LimitsChanged(namespace string) {
	if !b.enforcing.Load() {
		b.enqueue(b.table.Readmit) // Settle looks at all of them
		return
	}
	b.enqueue(func() { b.enforceWhere(func(k quotaKey) bool { return k.namespace == namespace }) })
}

// Settle says that the rules are known from now on: what was entered without them is held to them. Before, nobody loses a
// place, for which metrics autoscalers ask for may not have been read yet.
func (b *Registry) Enforce() {
	b.enforcing.Store(true)
	b.enqueue(func() { b.enforceWhere(func(quotaKey) bool { return true }) })
}

func (b *Registry) enforceWhere(concerns func(quotaKey) bool) {
	for i := range b.shards {
		b.enforceShard(&b.shards[i], concerns)
	}
	b.table.Readmit()
}

func (b *Registry) enforceShard(shard *shard, concerns func(quotaKey) bool) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for s := range shard.all() {
		if k := s.key; k.namespace != "" && concerns(k) {
			s.clearRejected() // the limit is another one: who is refused now is told of it
			b.enforceLocked(s, k.limit(b.rules.Limits(k.namespace).Or(b.config.limits())))
		}
	}
}
