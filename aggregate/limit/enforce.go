package limit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Run executes queued removals, evicts idle metrics and settles contests until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	idle := time.NewTicker(idleInterval)
	defer idle.Stop()
	again := time.NewTicker(retryInterval)
	defer again.Stop()
	var settle <-chan time.Time // never, without other replicas
	if r.config.Origin != "" {
		ticker := time.NewTicker(settleInterval)
		defer ticker.Stop()
		settle = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
			r.runJobs()
		case <-idle.C:
			r.evictIdle()
		case <-again.C:
			r.retryRejected()
		case now := <-settle:
			r.settleDue(now)
		}
	}
}

// enqueue has Run execute a job. Its callers hold locks of the table, or must not wait.
func (r *Registry) enqueue(job func()) {
	r.mu.Lock()
	r.jobs = append(r.jobs, job)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Registry) runJobs() {
	r.mu.Lock()
	jobs := r.jobs
	r.jobs = nil
	r.mu.Unlock()
	for _, job := range jobs {
		job()
	}
}

// evictLocked takes a metric's slot away and has its series removed.
func (r *Registry) evictLocked(s *quota, one *slot, why string) {
	s.evict(one)
	r.metrics.shed.Inc()
	objects, name := one.objects(s.key), one.name
	r.enqueue(func() {
		for _, o := range objects {
			r.table.Shed(o, name)
		}
		r.events.Event(subject(objects[0]), "MetricShed", metric.Mask(name), why)
	})
}

// enforceLocked evicts metrics until the quota is within its limit: the newest unnamed ones first.
// Too many series never evict a metric that an autoscaler names; too many metrics do.
func (r *Registry) enforceLocked(s *quota, limit metric.Limit) {
	unasked := func(one *slot) bool { return !r.namedByAutoscaler(s, one) }
	tooMany := func() bool { return int64(s.metrics) > int64(limit.Metrics) }
	for tooMany() || int64(s.series) > int64(limit.Series) {
		victim := s.newest(unasked)
		if victim == nil && tooMany() {
			victim = s.newest(func(*slot) bool { return true })
		}
		if victim == nil {
			return
		}
		r.evictLocked(s, victim, fmt.Sprintf("%q was evicted: the limit is now %d metrics and %d series",
			short(victim.name), limit.Metrics, limit.Series))
	}
}

// ObjectGone removes the series of an object that no longer exists, and forgets its rejections. Of a Namespace it
// removes what describes the Namespace itself: the news may be late, and the quota's other series then be those of
// the next namespace of the name. Table.DeleteNamespace removes the former one's, by their birth.
func (r *Registry) ObjectGone(o metric.Object) {
	whole := o.Resource == "namespaces"
	r.withQuota(quotaKeyOf(&o), func(s *quota) {
		if s.key.pod != "" || whole {
			s.clearRejected()
		}
		var ended []string
		for slot := range s.taken() {
			if slices.Contains(slot.objects(s.key), o) {
				ended = append(ended, slot.name)
			}
		}
		if len(ended) > 0 {
			r.enqueue(func() {
				for _, name := range ended {
					r.table.End(o, name)
					r.forget(o, name)
				}
			})
		}
	})
	if whole {
		r.metrics.rejections.DeleteLabelValues(o.Name)
	}
}

// AutoscalersChanged lets rejected metrics ask again: autoscalers name others now.
func (r *Registry) AutoscalersChanged(string) { r.enqueue(r.table.RetryRejected) }

// LimitsChanged applies a namespace's new limits: excess metrics are evicted, and rejected ones may
// ask again.
func (r *Registry) LimitsChanged(namespace string) {
	if !r.enforcing.Load() {
		r.enqueue(r.table.RetryRejected) // Enforce looks at all of them
		return
	}
	r.enqueue(func() { r.enforceWhere(func(k quotaKey) bool { return k.namespace == namespace }) })
}

// Enforce applies the limits from now on, starting with the series that are already there. It is
// called once the cluster view is synced. Before that nothing is evicted: the autoscalers may not
// have been read yet.
func (r *Registry) Enforce() {
	r.enforcing.Store(true)
	r.enqueue(func() { r.enforceWhere(func(quotaKey) bool { return true }) })
}

func (r *Registry) enforceWhere(concerns func(quotaKey) bool) {
	for i := range r.shards {
		r.enforceShard(&r.shards[i], concerns)
	}
	r.table.RetryRejected()
}

func (r *Registry) enforceShard(shard *shard, concerns func(quotaKey) bool) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for s := range shard.all() {
		if k := s.key; k.namespace != "" && concerns(k) {
			s.clearRejected() // the limit changed, so each rejected metric gets another Event
			if limit := r.limitOf(k); s.foreign() == 0 {
				r.enforceLocked(s, limit)
			} else if s.exceeds(limit) {
				r.contests.add(k)
			}
		}
	}
}
