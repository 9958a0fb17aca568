package limit

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// The verdict on a quota with more than its limit is a pure function of the claims on it. All
// replicas know the same claims as soon as it is quiet, so all reach the same verdict.

// claim is one series of a quota, and the oldest of its twins.
type claim struct {
	object metric.Object
	name   string
	labels metric.Labels
	at     int64  // birth, in Unix nanoseconds
	origin string // decides between births of one date
	own    bool   // this replica has it
}

// compareClaims sorts the oldest first.
func compareClaims(a, b claim) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.origin, b.origin), cmp.Compare(a.name, b.name),
		cmp.Compare(a.object.Resource, b.object.Resource), cmp.Compare(a.object.Name, b.object.Name),
		cmp.Compare(a.object.UID, b.object.UID), cmp.Compare(a.labels.Packed(), b.labels.Packed()))
}

// simultaneous is the age up to which an excess is explained by origins that did not know of each
// other's series: the length of an outage between replicas.
const simultaneous = 10 * time.Minute

// verdict decides which claims yield. The claims are sorted.
type verdict struct {
	claims []claim
	limit  metric.Limit
	named  map[string]bool // metrics that an autoscaler names
	idle   map[string]bool // other metrics without a sample for idleAfter
	yields []bool          // by claim
}

// ofSimultaneous replays the births in their order, as one process would have decided about them. Only
// claims that are younger than since yield: a limit that was lowered meanwhile costs no single series.
func (v *verdict) ofSimultaneous(since int64) {
	replay := *v
	replay.yields = make([]bool, len(v.claims))
	held := newHoldings(&replay)
	for i := range replay.claims {
		held.admit(i)
	}
	for i := range v.claims {
		v.yields[i] = v.yields[i] || replay.yields[i] && v.claims[i].at >= since
	}
}

// holdings counts what the claims admitted so far hold.
type holdings struct {
	v       *verdict
	metrics int
	series  int
	of      map[string]*holding
	order   []*holding // by the birth of the metric
}

// holding is what one metric holds.
type holding struct {
	name    string
	claims  []int
	evicted bool
}

func newHoldings(v *verdict) *holdings { return &holdings{v: v, of: map[string]*holding{}} }

func (h *holdings) fits(one *holding) bool {
	return h.series < h.v.limit.Series && (one != nil || h.metrics < h.v.limit.Metrics)
}

// admit replays one birth.
func (h *holdings) admit(i int) {
	name := h.v.claims[i].name
	holding := h.of[name]
	if holding != nil && holding.evicted {
		h.v.yields[i] = true
		return
	}
	for !h.fits(holding) {
		if !h.evictIdle(name) && (!h.v.named[name] || !h.evictNewest(name)) {
			h.v.yields[i] = true
			return
		}
	}
	h.add(i, holding)
}

func (h *holdings) add(i int, one *holding) {
	if one == nil {
		one = &holding{name: h.v.claims[i].name}
		h.of[one.name] = one
		h.order = append(h.order, one)
		h.metrics++
	}
	one.claims = append(one.claims, i)
	h.series++
}

// evictIdle evicts the newest idle metric, except one.
func (h *holdings) evictIdle(except string) bool {
	return h.evictNewestOf(func(name string) bool { return name != except && h.v.idle[name] })
}

// evictNewest evicts the newest metric that no autoscaler names, except one.
func (h *holdings) evictNewest(except string) bool {
	return h.evictNewestOf(func(name string) bool { return name != except && !h.v.named[name] })
}

func (h *holdings) evictNewestOf(mayGo func(name string) bool) bool {
	for _, holding := range slices.Backward(h.order) {
		if !holding.evicted && mayGo(holding.name) {
			h.evict(holding)
			return true
		}
	}
	return false
}

func (h *holdings) evict(one *holding) {
	one.evicted = true
	h.metrics--
	h.series -= len(one.claims)
	for _, i := range one.claims {
		h.v.yields[i] = true
	}
}

// ofMetrics evicts whole metrics, idle ones and then the newest first, until the rest is within the
// limit. As in one process, too many series never evict a metric that an autoscaler names; too many
// metrics do.
func (v *verdict) ofMetrics() {
	held := newHoldings(v)
	for i := range v.claims {
		if !v.yields[i] {
			held.add(i, held.of[v.claims[i].name])
		}
	}
	for held.metrics > v.limit.Metrics || held.series > v.limit.Series {
		if held.evictIdle("") || held.evictNewest("") {
			continue
		}
		if held.metrics <= v.limit.Metrics || !held.evictNewestOf(func(string) bool { return true }) {
			return
		}
	}
}
