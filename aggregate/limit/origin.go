package limit

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Several replicas share the limits (docs/adr/0051). Each of them counts the series of all origins:
// its own table's, and those of the shadows that it keeps of the others. A twin, the same series at
// several origins, counts once. Who has to yield follows from what all of them know (verdict.go),
// and each origin sheds its own series only.

// Births is the table of an origin, as the limit-enforcement goroutine asks it.
type Births interface {
	// AppendBirths appends the labels and births of a metric's live series.
	AppendBirths(dst []metric.Birth, o metric.Object, name string) []metric.Birth
	// Idle returns the time since the metric's last sample; 0: there is no such metric.
	Idle(o metric.Object, name string) time.Duration
}

// originSet has a bit for each origin.
type originSet uint64

// ownOrigin is the bit of this replica.
const ownOrigin originSet = 1

// Origin counts the series of another origin, as the admission of its shadow.
type Origin struct {
	registry *Registry
	name     string
	births   Births
	bit      originSet // 0: there are too many origins, and its series are not counted
}

// origins are the other origins.
type origins struct {
	mu    sync.Mutex
	taken originSet
	all   []*Origin
}

// Origin begins to count the series of another origin. The name decides between series of equal
// age. Config.Origin must be set.
func (r *Registry) Origin(name string, births Births) *Origin {
	g := &Origin{registry: r, name: name, births: births}
	r.origins.mu.Lock()
	defer r.origins.mu.Unlock()
	if free := ^(r.origins.taken | ownOrigin); free != 0 {
		g.bit = 1 << bits.TrailingZeros64(uint64(free))
		r.origins.taken |= g.bit
	} else {
		r.logger.Warn("too many origins: the series of one are not counted by the limits", "origin", name)
	}
	r.origins.all = append(r.origins.all, g)
	return g
}

// Close ends the counting of an origin. All of its series must have left, and none may enter.
func (g *Origin) Close() {
	all := &g.registry.origins
	all.mu.Lock()
	defer all.mu.Unlock()
	all.taken &^= g.bit
	all.all = slices.DeleteFunc(all.all, func(origin *Origin) bool { return origin == g })
}

// others returns the other origins.
func (r *Registry) others() []*Origin {
	r.origins.mu.Lock()
	defer r.origins.mu.Unlock()
	return slices.Clone(r.origins.all)
}

// Admit implements aggregate.Admission. Another origin's series is never rejected here: that origin
// sheds it if it has to yield.
func (g *Origin) Admit(o *metric.Object, name string, labels metric.Labels, born uint32) metric.Reason {
	g.Enter(o, name, labels, born)
	return metric.Applied
}

// Enter implements aggregate.Admission.
func (g *Origin) Enter(o *metric.Object, name string, labels metric.Labels, _ uint32) {
	if g.bit == 0 {
		return
	}
	r := g.registry
	r.withQuota(quotaKeyOf(o), func(s *quota) {
		r.enterLocked(s, g.bit, o, name, labels, math.MaxUint32)
		if r.enforcing.Load() && s.key.namespace != "" && s.exceeds(r.limitOf(s.key)) {
			r.contests.add(s.key)
		}
	})
}

// Leave implements aggregate.Admission.
func (g *Origin) Leave(o *metric.Object, name string, labels metric.Labels) {
	g.registry.withQuota(quotaKeyOf(o), func(s *quota) { g.registry.leaveLocked(s, g.bit, o, name, labels) })
}

// forget ends the counting of a metric of an object that no longer exists, at all other origins.
// They remove its series themselves, but one of them may not be there any more.
func (r *Registry) forget(o metric.Object, name string) {
	for _, g := range r.others() {
		for _, appendBirth := range g.births.AppendBirths(nil, o, name) {
			g.Leave(&o, name, appendBirth.Labels)
		}
	}
}

// seriesKey is the identity of a series.
type seriesKey struct {
	object metric.Object
	name   string
	labels metric.Labels
}

// holders returns the origins of a series, by the hash that is the series' key.
func (r *Registry) holdersLocked(s *quota, o *metric.Object, name string,
	labels metric.Labels) (map[uint64]originSet, uint64) {
	shard, _ := r.shardOf(s.key)
	if shard.holders == nil {
		shard.holders = map[uint64]originSet{}
	}
	return shard.holders, maphash.Comparable(r.seed, seriesKey{*o, name, labels})
}

// enterLocked counts a series of an origin, unless a twin of it is counted already. born is the
// tick of this replica's series.
func (r *Registry) enterLocked(s *quota, from originSet, o *metric.Object, name string, labels metric.Labels,
	born uint32) {
	if r.config.Origin == "" {
		s.enterSeries(o, name, born)
		return
	}
	holders, key := r.holdersLocked(s, o, name, labels)
	had := holders[key]
	if had&from != 0 {
		return
	}
	holders[key] = had | from
	if had == 0 {
		s.enterSeries(o, name, born)
	} else if slot := s.slot(name); slot != nil {
		slot.since = min(slot.since, born)
	}
	if from != ownOrigin {
		s.ensureExtras().foreign++
		s.revive(name)
	}
}

// leaveLocked counts a series of an origin less, unless a twin of it is left.
func (r *Registry) leaveLocked(s *quota, from originSet, o *metric.Object, name string, labels metric.Labels) {
	if r.config.Origin == "" {
		s.leaveSeries(o, name)
		return
	}
	holders, key := r.holdersLocked(s, o, name, labels)
	had := holders[key]
	if had&from == 0 {
		return
	}
	if from != ownOrigin {
		s.extras.foreign--
	}
	if had != from {
		holders[key] = had &^ from
		return
	}
	delete(holders, key)
	s.leaveSeries(o, name)
}

// hasTwinLocked reports whether another origin has the series: it is counted already.
func (r *Registry) hasTwinLocked(s *quota, o *metric.Object, name string, labels metric.Labels) bool {
	if s.foreign() == 0 {
		return false
	}
	holders, key := r.holdersLocked(s, o, name, labels)
	return holders[key]&^ownOrigin != 0
}

// foreign returns the number of series that other origins have.
func (s *quota) foreign() uint32 {
	if s.extras == nil {
		return 0
	}
	return s.extras.foreign
}

// revive counts an evicted metric again: another origin has series of it.
func (s *quota) revive(name string) {
	if slot := s.slot(name); slot != nil && slot.evicted {
		slot.evicted = false
		s.metrics++
		s.series += slot.series
	}
}

// exceeds reports whether the quota has more than its limit.
func (s *quota) exceeds(limit metric.Limit) bool {
	return int64(s.metrics) > int64(limit.Metrics) || int64(s.series) > int64(limit.Series)
}

// fitsAfterVerdictLocked reports whether one more series of a metric fits once others have yielded: idle
// metrics and, for a metric that an autoscaler names, all that none names. The verdict decides which ones
// yield; until then the quota exceeds its limit.
func (r *Registry) fitsAfterVerdictLocked(s *quota, own *slot, limit metric.Limit, o *metric.Object, name string) bool {
	named := r.cluster.NamedByAutoscaler(s.key.namespace, o.Resource, name)
	metrics, series := int64(0), int64(0)
	for one := range s.taken() {
		yields := one != own && (one.evicted || one.idle || named && !r.namedByAutoscaler(s, one))
		if !yields {
			metrics++
			series += int64(one.series)
		}
	}
	if own == nil {
		metrics++
	}
	return metrics <= int64(limit.Metrics) && series < int64(limit.Series)
}
