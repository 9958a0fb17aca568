package limit

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// settleInterval is how often quotas with more than their limit are settled, when several replicas
// share the limits. It is half of a flush.
const settleInterval = 250 * time.Millisecond

// An excess that is left to others is looked at again, ever more rarely: after contestAgain, and at
// least every contestRarely.
const (
	contestAgain  = 2 * time.Second
	contestRarely = time.Minute
)

// contests are the quotas that have more than their limit.
type contests struct {
	mu  sync.Mutex
	due map[quotaKey]contest
}

type contest struct {
	at   time.Time     // when it is looked at
	wait time.Duration // until it is looked at again; 0: it was not yet
}

// add has a quota settled soon.
func (c *contests) add(k quotaKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due == nil {
		c.due = map[quotaKey]contest{}
	}
	c.due[k] = contest{}
}

// take returns the quotas that are due at a moment.
func (c *contests) take(now time.Time) map[quotaKey]contest {
	c.mu.Lock()
	defer c.mu.Unlock()
	var due map[quotaKey]contest
	for k, one := range c.due {
		if one.at.After(now) {
			continue
		}
		if due == nil {
			due = map[quotaKey]contest{}
		}
		due[k] = one
		delete(c.due, k)
	}
	return due
}

// retry looks at a quota again after some time.
func (c *contests) retry(k quotaKey, one contest, now time.Time) {
	wait := min(max(2*one.wait, contestAgain), contestRarely)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, again := c.due[k]; !again {
		c.due[k] = contest{at: now.Add(wait), wait: wait}
	}
}

// settleDue settles the quotas that are due at a moment.
func (r *Registry) settleDue(now time.Time) {
	for k, c := range r.contests.take(now) {
		if r.settle(k, now) {
			r.contests.retry(k, c, now)
		}
	}
}

// settle sheds the series of this replica that have to yield. It reports whether the quota had more
// than its limit.
func (r *Registry) settle(k quotaKey, now time.Time) bool {
	v, over := r.caseOf(k)
	if !over {
		return false
	}
	v.ofSimultaneous(now.Add(-simultaneous).UnixNano())
	v.ofMetrics()
	r.execute(k, v)
	return true
}

// held is a metric of one object in a quota.
type held struct {
	object metric.Object
	name   string
}

// caseOf collects the claims on a quota. The tables are asked without the lock: they call the
// registry with their own locks held.
func (r *Registry) caseOf(k quotaKey) (v *verdict, over bool) {
	limit := r.limitOf(k)
	v = &verdict{limit: limit, named: map[string]bool{}, idle: map[string]bool{}}
	var all []held
	r.withQuota(k, func(s *quota) {
		if over = s.exceeds(limit); !over {
			return
		}
		for slot := range s.taken() {
			v.named[slot.name] = r.namedByAutoscaler(s, slot)
			for _, o := range slot.objects(k) {
				all = append(all, held{o, slot.name})
			}
		}
	})
	if !over {
		return nil, false
	}
	for _, h := range all { // a metric of several objects is idle if all are
		_, another := v.idle[h.name]
		v.idle[h.name] = !v.named[h.name] && (!another || v.idle[h.name]) && r.idleEverywhere(h.object, h.name)
	}
	v.claims = r.claims(all)
	v.yields = make([]bool, len(v.claims))
	return v, true
}

// claims asks all origins for their series of some metrics, and joins twins.
func (r *Registry) claims(all []held) (claims []claim) {
	others := r.others()
	var births []metric.Birth
	for _, h := range all {
		from := len(claims)
		births = r.table.AppendBirths(births[:0], h.object, h.name)
		for _, b := range births {
			claims = append(claims, claim{h.object, h.name, b.Labels, b.At, r.config.Origin, true})
		}
		for _, g := range others {
			births = r.counted(h, g, g.births.AppendBirths(births[:0], h.object, h.name))
			for _, b := range births {
				claims = append(claims, claim{h.object, h.name, b.Labels, b.At, g.name, false})
			}
		}
		claims = claims[:from+joinTwins(claims[from:])]
	}
	slices.SortFunc(claims, compareClaims)
	return claims
}

// counted returns the births that are counted, without those that forget has left out.
func (r *Registry) counted(h held, g *Origin, births []metric.Birth) []metric.Birth {
	r.withQuota(quotaKeyOf(&h.object), func(s *quota) {
		births = slices.DeleteFunc(births, func(b metric.Birth) bool {
			holders, key := r.holdersLocked(s, &h.object, h.name, b.Labels)
			return holders[key]&g.bit == 0
		})
	})
	return births
}

// joinTwins keeps the oldest of the claims with the same labels, which are of one metric and one
// object. It returns the number that is left.
func joinTwins(claims []claim) int {
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.labels.Packed(), b.labels.Packed()), compareClaims(a, b))
	})
	n := 0
	for _, c := range claims {
		if n > 0 && claims[n-1].labels == c.labels {
			claims[n-1].own = claims[n-1].own || c.own
			continue
		}
		claims[n] = c
		n++
	}
	return n
}

// execute sheds what this replica has of the claims that yield.
func (r *Registry) execute(k quotaKey, v *verdict) {
	kept := map[held]bool{}
	gone := map[held][]metric.Labels{}
	for i, c := range v.claims {
		key := held{c.object, c.name}
		if !v.yields[i] {
			kept[key] = true
		} else if c.own {
			gone[key] = append(gone[key], c.labels)
		}
	}
	for key, sets := range gone {
		if kept[key] {
			r.table.ShedSeries(key.object, key.name, sets)
			r.metrics.rejections.WithLabelValues(k.namespace).Add(float64(len(sets)))
			continue
		}
		r.table.Shed(key.object, key.name)
		r.metrics.shed.Inc()
		r.events.Event(subject(key.object), "MetricShed", metric.Mask(key.name), fmt.Sprintf(
			"%q was evicted: with the series of all replicas, the limit of %d metrics and %d series was exceeded, "+
				"and older metrics or those that a HorizontalPodAutoscaler names take precedence",
			short(key.name), v.limit.Metrics, v.limit.Series))
	}
}
