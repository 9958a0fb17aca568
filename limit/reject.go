package limit

import (
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// maxRejected bounds the rejected metrics that a quota remembers.
const maxRejected = 64

// rejectLocked counts a rejection, and reports it once per metric: in the log and as an Event.
// Before the limits are enforced it only counts.
func (r *Registry) rejectLocked(s *quota, limit metric.Limit, o *metric.Object, name string) {
	r.metrics.countRejection(s.key.namespace)
	rare := s.ensureExtras()
	rare.idleWanted = true
	if !r.enforcing.Load() {
		return
	}
	if _, told := rare.rejected[name]; told || len(rare.rejected) == maxRejected {
		return
	}
	if rare.rejected == nil {
		rare.rejected = map[string]struct{}{}
	}
	rare.rejected[name] = struct{}{}
	about, message := *o, s.rejection(limit, name)
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

// rejection says what was rejected, and which metrics hold the slots.
func (s *quota) rejection(limit metric.Limit, name string) string {
	owner := "this pod"
	if s.key.pod == "" {
		owner = "the namespace (not counting pods)"
	}
	if s.slot(name) != nil {
		return fmt.Sprintf("a new series of %q is rejected: the limit of %s is %d series, and it has %d",
			name, owner, limit.Series, s.series)
	}
	held := s.metricNames()
	const shown = 20
	more := ""
	if len(held) > shown {
		more = fmt.Sprintf(" and %d more", len(held)-shown)
		held = held[:shown]
	}
	return fmt.Sprintf("metric %q is rejected: the limit of %s is %d metrics and %d series; it has %s%s with %d series. "+
		"Raise the limit with a LimitRange (type sluice.dev/%s); a metric that a HorizontalPodAutoscaler names takes precedence",
		name, owner, limit.Metrics, limit.Series, strings.Join(held, ", "), more, s.series, s.key.kind())
}

func (k quotaKey) kind() string {
	if k.pod != "" {
		return "Pod"
	}
	return "Namespace"
}

// Explain says why a series of a metric would be rejected; empty: it would not. It keeps none of
// its arguments, which may be borrowed.
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
	if own := s.slot(name); !s.fits(own, limit) {
		return s.rejection(limit, name)
	}
	return ""
}
