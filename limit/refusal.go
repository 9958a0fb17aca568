package limit

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// maxRefused bounds what is remembered of refused metrics.
const maxRefused = 64

// refuseLocked counts a refusal, and tells of it once for each metric: if the limit is known to be one.
func (b *Registry) refuseLocked(s *scope, limit metric.Limit, o *metric.Object, name string) {
	b.counts.refused(s.key.namespace)
	rare := s.more()
	rare.wanted = true
	if !b.settled.Load() {
		return
	}
	if _, told := rare.refused[name]; told || len(rare.refused) == maxRefused {
		return
	}
	if rare.refused == nil {
		rare.refused = map[string]struct{}{}
	}
	rare.refused[name] = struct{}{}
	about, message := *o, s.refusal(limit, name)
	b.later(func() {
		if suppressed, pass := b.said.pass(time.Now()); pass {
			b.logger.Info("a metric is over the limit", "metric", name, "of", about.String(), "because", message, "suppressed", suppressed)
		}
		b.witness.Event(subject(about), "MetricRefused", message)
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
func (s *scope) refusal(limit metric.Limit, name string) string {
	of := "this pod"
	if s.key.pod == "" {
		of = "the namespace, beside its pods,"
	}
	if s.find(name) != nil {
		return fmt.Sprintf("a new series of %q is refused: %s may have %d series and has %d", name, of, limit.Series, s.series)
	}
	held := s.holders()
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

func (k scopeKey) kind() string {
	if k.pod != "" {
		return "Pod"
	}
	return "Namespace"
}

// Explain says why a series of a metric would be refused; empty: it would not be. It keeps nothing of what it is asked about,
// which may be borrowed.
func (b *Registry) Explain(o metric.Object, name string) string {
	k := scopeOf(&o)
	if k.namespace == "" {
		return "" // it has no limit of its own
	}
	limit := k.limit(b.rules.Limits(k.namespace).Or(b.config.limits()))
	shard, hash := b.shard(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s := shard.find(hash, k)
	if s == nil {
		s = &scope{key: k}
	}
	if own := s.find(name); !s.fits(own, limit) {
		return s.refusal(limit, name)
	}
	return ""
}
