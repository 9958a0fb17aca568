package limit

import (
	"cmp"
	"hash/maphash"
	"math"
	"math/bits"
	"strings"

	"github.com/sluice-metrics/sluice/internal/smallest"
	"github.com/sluice-metrics/sluice/metric"
)

// Use is the use of a limit by a pod, or by a namespace for everything except its pods.
type Use struct {
	// Object is the pod or the namespace.
	Object          metric.Object
	Metrics, Series int
	Limit           metric.Limit
	// Rejected is the number of series that were rejected since the pod or namespace got its first one.
	Rejected uint64
	// WantedMetrics and WantedSeries are the numbers with which nothing would have been rejected
	// since the limit changed; 0: nothing was. WantedSeries is estimated.
	WantedMetrics, WantedSeries int
	// Holders are the metrics that hold the slots, those with the most series first.
	Holders []Holder
}

// Part selects a page of the uses.
type Part struct {
	Namespace string // of the pods, or the namespace itself; empty: all
	Name      string // of the pod or namespace; empty: all
	// After is the object of the last use of the page before; zero: the first page. Its UID is
	// ignored.
	After metric.Object
	// Fullest sorts the uses that are nearest to their limit first. There is no page after it.
	Fullest bool
	Most    int // uses, at least 1
}

// Uses lists the uses of limits, sorted by namespace, resource and name. more reports whether there
// are others. It holds the lock of one shard at a time.
func (r *Registry) Uses(p Part) (uses []Use, more bool) {
	order := compareUses
	if p.Fullest {
		order = compareFullness
	}
	first, limits := smallest.Of(p.Most, order), map[string]metric.Limits{}
	for i := range r.shards {
		r.addUses(first, &r.shards[i], &p, limits)
	}
	uses, more = first.Sorted()
	for i := range uses {
		r.complete(&uses[i])
	}
	return uses, more
}

// complete adds what is not needed to choose the uses of a page.
func (r *Registry) complete(use *Use) {
	k := quotaKeyOf(&use.Object)
	use.Limit = r.limitOf(k)
	shard, hash := r.shardOf(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if s := shard.find(hash, k); s != nil {
		use.WantedMetrics, use.WantedSeries = s.wanted()
		use.Holders = r.holdersOfLocked(s)
	}
}

// addUses adds the uses of a shard. limits are those of namespaces that were asked for already.
func (r *Registry) addUses(first *smallest.Set[Use], s *shard, p *Part, limits map[string]metric.Limits) {
	after := Use{Object: p.After}
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.all() {
		if q.key.namespace == "" {
			continue // it has no limit
		}
		use := Use{Object: q.key.limited(), Metrics: int(q.metrics), Series: int(q.series)}
		if p.Namespace != "" && p.Namespace != q.key.namespace || p.Name != "" && p.Name != use.Object.Name ||
			p.After.Resource != "" && compareUses(&use, &after) <= 0 {
			continue
		}
		if q.extras != nil {
			use.Rejected = q.extras.rejections
		}
		if p.Fullest {
			limit, known := limits[q.key.namespace]
			if !known {
				limit = r.cluster.Limits(q.key.namespace).OrDefault(r.config.limits())
				limits[q.key.namespace] = limit
			}
			use.Limit = q.key.limit(limit)
		}
		first.Add(use)
	}
}

// Share is the largest share of a limit that is used: 1 is all of it.
func (u *Use) Share() float64 {
	return max(share(u.Metrics, u.Limit.Metrics), share(u.Series, u.Limit.Series))
}

func share(used, limit int) float64 {
	if limit <= 0 {
		return 1 // a limit of 0 is full
	}
	return float64(used) / float64(limit)
}

// compareFullness sorts uses: the nearest to their limit first, then those with the most rejections.
func compareFullness(a, b *Use) int {
	return cmp.Or(cmp.Compare(b.Share(), a.Share()), cmp.Compare(b.Rejected, a.Rejected), compareUses(a, b))
}

// limited is the object that the limit applies to.
func (k quotaKey) limited() metric.Object {
	if k.pod != "" {
		return k.own()
	}
	return metric.Object{Resource: "namespaces", Name: k.namespace}
}

func compareUses(a, b *Use) int {
	return cmp.Or(strings.Compare(a.Object.InNamespace(), b.Object.InNamespace()),
		strings.Compare(a.Object.Resource, b.Object.Resource), strings.Compare(a.Object.Name, b.Object.Name),
		strings.Compare(a.Object.UID, b.Object.UID))
}

// unmet estimates how many different series were rejected: each sets a bit, and the share of bits
// that are still 0 tells the number (linear counting; Whang, Vander-Zanden and Taylor, 1990). The
// error is about 3 percent up to 2,000 series, and 128 bytes are kept of a quota that rejects.
type unmet [16]uint64

const unmetBits = 64 * len(unmet{})

func (u *unmet) add(hash uint64) {
	bit := hash % uint64(unmetBits)
	u[bit/64] |= 1 << (bit % 64)
}

// estimate is the number of different hashes, at most about 7,000.
func (u *unmet) estimate() int {
	if u == nil {
		return 0
	}
	zeros := unmetBits
	for _, word := range u {
		zeros -= bits.OnesCount64(word)
	}
	return int(math.Round(float64(unmetBits) * math.Log(float64(unmetBits)/float64(max(zeros, 1)))))
}

// countUnmetLocked counts a rejected series.
func (r *Registry) countUnmetLocked(rare *quotaExtras, o *metric.Object, name string, labels metric.Labels) {
	if rare.unmet == nil {
		rare.unmet = &unmet{}
	}
	rare.unmet.add(maphash.Comparable(r.seed, struct {
		object       metric.Object
		name, labels string
	}{*o, name, labels.Packed()}))
}

// wanted is the number of metrics and series with which nothing would have been rejected since the
// limit changed; 0: nothing was.
func (s *quota) wanted() (metrics, series int) {
	if len(s.rejected()) == 0 {
		return 0, 0
	}
	metrics = int(s.metrics)
	for name := range s.rejected() {
		if s.slot(name) == nil {
			metrics++
		}
	}
	return metrics, int(s.series) + s.extras.unmet.estimate()
}
