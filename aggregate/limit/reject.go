package limit

import (
	"fmt"

	"github.com/sluice-metrics/sluice/metric"
)

// maxRejected bounds the rejected metrics that a quota remembers.
const maxRejected = 64

// rejectLocked counts a rejection, and reports it once per metric: in the log and as an Event.
// Before the limits are enforced it only counts.
func (r *Registry) rejectLocked(s *quota, limit metric.Limit, o *metric.Object, name string, labels metric.Labels) {
	r.metrics.countRejection(s.key.namespace)
	rare := s.ensureExtras()
	rare.idleWanted = true
	rare.refusals++
	if !r.enforcing.Load() {
		return
	}
	r.countUnmetLocked(rare, o, name, labels)
	if _, told := rare.rejected[name]; told || len(rare.rejected) == maxRejected {
		return
	}
	if rare.rejected == nil {
		rare.rejected = map[string]struct{}{}
	}
	rare.rejected[name] = struct{}{}
	about, message := *o, r.wordsLocked(s, limit, name)
	r.enqueue(func() {
		if suppressed, ok := r.said.Allow(); ok {
			r.logger.Info("a metric is over the limit", "metric", name, "object", about.String(), "reason",
				message, "suppressed", suppressed)
		}
		r.events.Event(subject(about), "MetricRefused", name, message)
	})
}

// subject is the object that Events about o are on. For an external that is the namespace.
func subject(o metric.Object) metric.Object {
	if o.External() {
		return metric.Object{Resource: "namespaces", Name: o.Namespace}
	}
	return o
}

// Explain says why a series of a metric would be rejected, in the words of the Event; empty: it
// would be admitted. It decides as Admit, and changes nothing. It keeps none of its arguments,
// which may be borrowed.
func (r *Registry) Explain(o metric.Object, name string) string {
	k := quotaKeyOf(&o)
	if k.namespace == "" {
		return "" // it has no limit
	}
	limit := r.limitOf(k)
	shard, hash := r.shardOf(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s := shard.find(hash, k)
	if s == nil {
		s = &quota{key: k}
	}
	if own := s.slot(name); own != nil && own.evicted {
		return fmt.Sprintf("metric %q has just lost its slot to another, and its series are being removed", short(name))
	}
	if _, fits := r.roomLocked(s, limit, &o, name); fits {
		return ""
	}
	return r.wordsLocked(s, limit, name)
}
