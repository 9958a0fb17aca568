package limit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// idleInterval is how often idle metrics are looked for, in quotas that rejected something.
const idleInterval = 10 * time.Second

// idleAfter is how long a metric has to be idle before another may take its slot.
const idleAfter = time.Hour

// retryInterval is how often rejected metrics may ask again. The table remembers rejections;
// without this a slot that turned idle since would never be offered.
const retryInterval = time.Minute

// retryRejected lets rejected metrics ask again, if there are any.
func (r *Registry) retryRejected() {
	for i := range r.shards {
		if r.shards[i].anyRejected() {
			r.table.RetryRejected()
			return
		}
	}
}

func (s *shard) anyRejected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.all() {
		if len(q.rejected()) > 0 {
			return true
		}
	}
	return false
}

// idleCandidate is a slot that may be idle, as it was when its quota was looked at.
type idleCandidate struct {
	key     quotaKey
	name    string
	since   uint32
	objects []metric.Object
}

// evictIdle evicts metrics that have been idle for idleAfter, the newest first, until there is room for what was
// rejected.
func (r *Registry) evictIdle() {
	for i := range r.shards {
		all := r.idleCandidates(&r.shards[i])
		slices.SortStableFunc(all, func(a, b idleCandidate) int { return cmp.Compare(b.since, a.since) })
		for _, c := range all {
			if r.isIdle(c) {
				limit := r.limitOf(c.key)
				r.withQuota(c.key, func(s *quota) { r.yieldIdleLocked(s, limit, c) })
			}
		}
	}
	r.runJobs()
}

// yieldIdleLocked evicts an idle metric if the quota wants its slot. With other origins, a verdict does.
func (r *Registry) yieldIdleLocked(s *quota, limit metric.Limit, c idleCandidate) {
	slot := s.slot(c.name)
	if slot != nil && s.foreign() > 0 {
		slot.idle = true
		r.table.RetryRejected()
		return
	}
	// A slot with the same name and start is the same one: a new one would be younger.
	metrics, series := s.wanted()
	if slot == nil || slot.since != c.since || slot.evicted || metrics <= limit.Metrics && series <= limit.Series {
		return
	}
	r.evictLocked(s, slot, fmt.Sprintf("%q was evicted: it received no sample for %s, and another metric was rejected",
		short(c.name), idleAfter))
}

// idleCandidates returns the slots of a shard that may be idle. The table is asked later, without
// the lock: it calls the registry with its own locks held.
func (r *Registry) idleCandidates(shard *shard) (all []idleCandidate) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for s := range shard.all() {
		if s.extras == nil || !s.extras.idleWanted {
			continue
		}
		s.extras.idleWanted = false
		for slot := range s.taken() {
			slot.idle = false
			if !slot.evicted && !r.namedByAutoscaler(s, slot) {
				all = append(all, idleCandidate{key: s.key, name: slot.name, since: slot.since, objects: slot.objects(s.key)})
			}
		}
	}
	return all
}

func (r *Registry) isIdle(c idleCandidate) bool {
	for _, o := range c.objects {
		if !r.idleEverywhere(o, c.name) {
			return false
		}
	}
	return len(c.objects) > 0
}

// idleEverywhere reports whether no origin received a sample of a metric for idleAfter.
func (r *Registry) idleEverywhere(o metric.Object, name string) bool {
	others := r.others()
	if len(others) == 0 {
		return r.table.Idle(o, name) > idleAfter
	}
	idle := func(births Births) bool {
		return len(births.AppendBirths(nil, o, name)) == 0 || births.Idle(o, name) > idleAfter
	}
	for _, g := range others {
		if !idle(g.births) {
			return false
		}
	}
	return idle(r.table)
}

// Patterns match the names of metrics to ignore; "*" stands for any text.
type Patterns struct{ parts [][]string }

// DefaultIgnored matches the 15 series that Datadog's clients send about themselves (datadog-go,
// "Client side telemetry").
var DefaultIgnored = []string{"datadog.dogstatsd.client.*"}

// ParsePatterns parses patterns, and returns all faults at once.
func ParsePatterns(patterns []string) (*Patterns, error) {
	p := new(Patterns)
	var faults []error
	for _, pattern := range patterns {
		if strings.Trim(pattern, "*") == "" {
			faults = append(faults, fmt.Errorf("pattern %q matches every metric; must contain part of a name, as in debug.*",
				pattern))
			continue
		}
		p.parts = append(p.parts, strings.Split(pattern, "*"))
	}
	return p, errors.Join(faults...)
}

// Match reports whether a pattern matches the whole name.
func (p *Patterns) Match(name string) bool {
	return slices.ContainsFunc(p.parts, func(parts []string) bool { return covers(parts, name) })
}

// covers matches the texts between the stars: the first and the last at the ends, the others in
// order, each as early as possible.
func covers(parts []string, name string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return name == first
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	rest := name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}
