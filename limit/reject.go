package limit

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// maxRefused bounds what is remembered of refused metrics.
const maxRejected = 64

// refuseLocked counts a refusal, and tells of it once for each metric: if the limit is known to be one.
func (b *Registry) rejectLocked(s *quota, limit metric.Limit, o *metric.Object, name string) {
	b.metrics.countRejection(s.key.namespace)
	rare := s.ensureExtras()
	rare.idleWanted = true
	if !b.enforcing.Load() {
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
	b.enqueue(func() {
		if suppressed, pass := b.said.pass(time.Now()); pass {
			b.logger.Info("a metric is over the limit", "metric", name, "of", about.String(), "because", message, "suppressed", suppressed)
		}
		b.events.Event(subject(about), "MetricRefused", message)
	})
}

// subject is whom people look at to read of an object's metrics: of what is external, the namespace.
func subject(o metric.Object) metric.Object {
	if o.External() {
		return metric.Object{Resource: "namespaces", Name: o.Namespace}
	}
	return o
}

// sparse lets one of many through in a while. Run's goroutine alone has it.
type sparse struct {
	last       time.Time
	suppressed int
}

const sayEvery = 5 * time.Second

func (s *sparse) pass(now time.Time) (suppressed int, pass bool) {
	if now.Sub(s.last) < sayEvery {
		s.suppressed++
		return 0, false
	}
	suppressed = s.suppressed
	*s = sparse{last: now}
	return suppressed, true
}

// refusal says what was refused and who has what it would need.
func (s *quota) rejection(limit metric.Limit, name string) string {
	of := "this pod"
	if s.key.pod == "" {
		of = "the namespace, beside its pods,"
	}
	if s.slot(name) != nil {
		return fmt.Sprintf("a new series of %q is refused: %s may have %d series and has %d", name, of, limit.Series, s.series)
	}
	held := s.metricNames()
	const shown = 20
	more := ""
	if len(held) > shown {
		more = fmt.Sprintf(" and %d more", len(held)-shown)
		held = held[:shown]
	}
	return fmt.Sprintf("metric %q is refused: %s may have %d metrics and %d series, and has %s%s with %d series. "+
		"A LimitRange of type sluice.dev/%s raises it, and a metric that a HorizontalPodAutoscaler names comes first",
		name, of, limit.Metrics, limit.Series, strings.Join(held, ", "), more, s.series, s.key.kind())
}

func (k quotaKey) kind() string {
	if k.pod != "" {
		return "Pod"
	}
	return "Namespace"
}

// Explain says why a series of a metric would be refused; empty: it would not be. It keeps nothing of what it is asked about,
// which may be borrowed.
func (b *Registry) Explain(o metric.Object, name string) string {
	k := quotaKeyOf(&o)
	if k.namespace == "" {
		return "" // it has no limit of its own
	}
	limit := k.limit(b.rules.Limits(k.namespace).Or(b.config.limits()))
	shard, hash := b.shardOf(k)
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
