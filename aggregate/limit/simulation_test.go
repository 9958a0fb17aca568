package limit

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

var seeds = flag.Int("seeds", 80, "seeds of the simulation of several replicas")

// replica is one origin: its table, its view of the cluster, its registry, and the shadows that it
// keeps of the others.
type replica struct {
	world    *world
	name     string
	limits   metric.Limits
	named    map[string]bool
	own      map[seriesKey]int64
	shadows  map[string]*shadowTable
	registry *Registry
	shed     int
}

// shadowTable is another origin's table, as far as its news have arrived.
type shadowTable struct {
	world  *world
	series map[seriesKey]int64
	origin *Origin
	news   []news // under way
}

type news struct {
	key  seriesKey
	at   int64
	dead bool
	due  time.Time
}

func (r *replica) Limits(string) metric.Limits                     { return r.limits }
func (r *replica) NamedByAutoscaler(_, _, name string) bool        { return r.named[name] }
func (r *replica) Alive(metric.Object) bool                        { return true }
func (r *replica) RetryRejected()                                  {}
func (r *replica) Event(metric.Object, string, string, string)     {}
func (r *replica) Idle(_ metric.Object, name string) time.Duration { return r.world.idle[name] }
func (r *replica) End(o metric.Object, name string) int            { return r.drop(o, name, nil) }
func (r *replica) Shed(o metric.Object, name string) int           { return r.drop(o, name, nil) }
func (r *replica) AppendBirths(dst []metric.Birth, o metric.Object, name string) []metric.Birth {
	return appendBirths(dst, r.own, o, name)
}
func (s *shadowTable) Idle(_ metric.Object, name string) time.Duration { return s.world.idle[name] }
func (s *shadowTable) AppendBirths(dst []metric.Birth, o metric.Object, name string) []metric.Birth {
	return appendBirths(dst, s.series, o, name)
}

func appendBirths(dst []metric.Birth, series map[seriesKey]int64, o metric.Object, name string) []metric.Birth {
	for k, at := range series {
		if k.object == o && k.name == name {
			dst = append(dst, metric.Birth{Labels: k.labels, At: at})
		}
	}
	return dst
}

func (r *replica) ShedSeries(o metric.Object, name string, sets []metric.Labels) (n int) {
	for i := range sets {
		n += r.drop(o, name, &sets[i])
	}
	return n
}

func (r *replica) drop(o metric.Object, name string, only *metric.Labels) (n int) {
	for _, k := range sorted(r.own) {
		if k.object == o && k.name == name && (only == nil || *only == k.labels) {
			r.die(k)
			r.shed++
			n++
		}
	}
	return n
}

// sorted makes a run repeatable: the order of a map is not.
func sorted[V any](series map[seriesKey]V) []seriesKey {
	return slices.SortedFunc(maps.Keys(series), func(a, b seriesKey) int {
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

func (r *replica) die(k seriesKey) {
	delete(r.own, k)
	r.registry.Leave(&k.object, k.name, k.labels)
	r.world.publish(r, news{key: k, dead: true})
}

func (r *replica) push(k seriesKey) bool {
	if _, known := r.own[k]; known {
		return true
	}
	born := r.world.now.Truncate(time.Second)
	if r.registry.Admit(&k.object, k.name, k.labels, uint32(born.Unix()-r.world.began.Unix())) != metric.Applied {
		return false
	}
	r.own[k] = born.UnixNano()
	r.world.publish(r, news{key: k, at: born.UnixNano()})
	return true
}

// start makes a registry that knows what the table and the shadows hold, as after a restart.
func (r *replica) start() {
	c := Config{PodMetrics: 4, PodSeries: 9, NamespaceMetrics: 5, NamespaceSeries: 12, Origin: r.name}
	r.registry = New(c, r, r, r, slog.New(slog.NewTextHandler(io.Discard, nil)))
	for k, at := range r.own {
		r.registry.Enter(&k.object, k.name, k.labels, uint32(at/1e9-r.world.began.Unix()))
	}
	for _, other := range r.world.replicas {
		name, s := other.name, r.shadows[other.name]
		if s == nil {
			continue
		}
		s.origin = r.registry.Origin(name, s)
		for k := range s.series {
			s.origin.Enter(&k.object, k.name, k.labels, 0)
		}
	}
	r.registry.Enforce()
	r.registry.runJobs()
}

// deliver applies the news that have arrived.
func (r *replica) deliver() {
	for _, s := range r.shadows {
		for len(s.news) > 0 && !s.news[0].due.After(r.world.now) {
			n := s.news[0]
			s.news = s.news[1:]
			if _, known := s.series[n.key]; known == !n.dead {
				continue
			}
			if n.dead {
				delete(s.series, n.key)
				s.origin.Leave(&n.key.object, n.key.name, n.key.labels)
				continue
			}
			s.series[n.key] = n.at
			s.origin.Enter(&n.key.object, n.key.name, n.key.labels, 0)
		}
	}
}

// world runs three replicas in virtual time.
type world struct {
	*rand.Rand
	began, now time.Time
	replicas   []*replica
	idle       map[string]time.Duration // by metric
	cut        [3][3]time.Time          // until when news from one to another are held up
}

func newWorld(seed uint64) *world {
	began := time.Unix(1_700_000_000, 0)
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), began: began, now: began.Add(time.Hour), idle: map[string]time.Duration{}}
	for i := range 3 {
		r := &replica{world: w, name: fmt.Sprint("sluice-", i), limits: metric.UnsetLimits(), named: map[string]bool{},
			own: map[seriesKey]int64{}, shadows: map[string]*shadowTable{}}
		w.replicas = append(w.replicas, r)
	}
	for _, r := range w.replicas {
		for _, other := range w.replicas {
			if other != r {
				r.shadows[other.name] = &shadowTable{world: w, series: map[seriesKey]int64{}}
			}
		}
		r.start()
	}
	return w
}

// publish sends news to the others, in order, with a flush's delay.
func (w *world) publish(from *replica, one news) {
	for i, to := range w.replicas {
		if to == from {
			continue
		}
		one.due = w.now.Add(time.Duration(w.IntN(700)) * time.Millisecond)
		for j, other := range w.replicas {
			if other == from && w.cut[j][i].After(one.due) {
				one.due = w.cut[j][i]
			}
		}
		s := to.shadows[from.name]
		if n := len(s.news); n > 0 && s.news[n-1].due.After(one.due) {
			one.due = s.news[n-1].due
		}
		s.news = append(s.news, one)
	}
}

// step lets a tenth of a second pass.
func (w *world) step() {
	w.now = w.now.Add(100 * time.Millisecond)
	for _, r := range w.replicas {
		r.deliver()
		r.registry.runJobs()
		if w.now.UnixMilli()%200 == 0 {
			r.registry.settleDue(w.now)
		}
		if w.now.UnixMilli()%3000 == 0 {
			r.registry.evictIdle()
		}
	}
}

func (w *world) settle() {
	for range 1300 { // longer than contestRarely and any cut
		w.step()
	}
}

func (w *world) randomSeries() seriesKey {
	o := metric.Object{Namespace: "shop"}
	if n := w.IntN(3); n > 0 {
		o = pod(fmt.Sprint("web-", n))
	}
	labels := metric.NewLabels([]metric.Label{{Key: "l", Value: fmt.Sprint(w.IntN(4))}})
	return seriesKey{o, fmt.Sprint("m", w.IntN(8)), labels}
}

// union is what all replicas hold together.
func (w *world) union() map[seriesKey]bool {
	all := map[seriesKey]bool{}
	for _, r := range w.replicas {
		for k := range r.own {
			all[k] = true
		}
	}
	return all
}

// checkQuiet fails if the replicas differ, or if a quota has more than its limit.
func (w *world) checkQuiet(t *testing.T, seed uint64) {
	t.Helper()
	type counts struct {
		metrics, series, named map[string]bool
	}
	truth := map[quotaKey]*counts{}
	for k := range w.union() {
		q := quotaKeyOf(&k.object)
		if truth[q] == nil {
			truth[q] = &counts{map[string]bool{}, map[string]bool{}, map[string]bool{}}
		}
		truth[q].metrics[k.name] = true
		truth[q].series[fmt.Sprint(k)] = true
		if w.replicas[0].named[k.name] {
			truth[q].named[fmt.Sprint(k)] = true
		}
	}
	for q, c := range truth {
		for _, r := range w.replicas {
			limit := r.registry.limitOf(q)
			r.registry.withQuota(q, func(s *quota) {
				if int(s.metrics) != len(c.metrics) || int(s.series) != len(c.series) {
					t.Errorf("seed %d: %s counts %d metrics and %d series of %s, want %d and %d", seed, r.name, s.metrics, s.series, q, len(c.metrics), len(c.series))
				}
			})
			if len(c.metrics) > limit.Metrics || len(c.series) > max(limit.Series, len(c.named)) {
				t.Errorf("seed %d: %s has %d metrics and %d series (%d named), the limit is %+v", seed, q, len(c.metrics), len(c.series), len(c.named), limit)
			}
		}
	}
}

// Random pushes at three replicas, with news under way for up to a second or held up by a cut: once
// it is quiet, all count the same, and nothing is over its limit.
func TestReplicasAgree(t *testing.T) {
	shed := 0
	for seed := range uint64(*seeds) {
		w := newWorld(seed)
		for range 60 {
			w.disturb()
			w.step()
		}
		w.sameRules()
		w.settle()
		w.checkQuiet(t, seed)
		for _, r := range w.replicas {
			shed += r.shed
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if shed == 0 {
		t.Error("nothing was ever shed")
	}
	t.Logf("%.1f series were shed per seed", float64(shed)/float64(*seeds))
}

// disturb lets something happen at random.
func (w *world) disturb() {
	r := w.replicas[w.IntN(3)]
	for range w.IntN(4) {
		w.replicas[w.IntN(3)].push(w.randomSeries())
	}
	switch w.IntN(40) {
	case 0:
		r.named[fmt.Sprint("m", w.IntN(8))] = w.IntN(3) > 0
		r.registry.AutoscalersChanged("shop")
	case 1:
		r.limits.Pod = metric.Limit{Metrics: 1 + w.IntN(6), Series: 1 + w.IntN(12)}
		r.registry.LimitsChanged("shop")
	case 2:
		if all := sorted(r.own); len(all) > 0 {
			r.die(all[w.IntN(len(all))])
		}
	case 3:
		w.cut[w.IntN(3)][w.IntN(3)] = w.now.Add(time.Duration(w.IntN(30_000)) * time.Millisecond)
	case 4:
		r.start()
	case 5:
		w.idle[fmt.Sprint("m", w.IntN(8))] = time.Duration(w.IntN(2)) * 2 * time.Hour
	}
}

// sameRules gives all replicas the cluster view of the first.
func (w *world) sameRules() {
	for _, r := range w.replicas[1:] {
		r.named, r.limits = w.replicas[0].named, w.replicas[0].limits
	}
	for _, r := range w.replicas {
		r.registry.AutoscalersChanged("shop")
		r.registry.LimitsChanged("shop")
	}
}

// Simultaneous births beyond the limit: exactly as many stay as fit, the oldest.
func TestTheOldestOfSimultaneousBirthsStay(t *testing.T) {
	for seed := range uint64(*seeds) {
		w := newWorld(seed)
		labels := func(i int) metric.Labels {
			return metric.NewLabels([]metric.Label{{Key: "l", Value: fmt.Sprint(i)}})
		}
		stay := map[seriesKey]bool{}
		for i := range 8 { // of 9
			s := seriesKey{pod("web-1"), "hits", labels(i)}
			stay[s] = w.replicas[i%3].push(s)
			w.now = w.now.Add(time.Second)
			w.step()
		}
		w.settle()
		order, first := w.Perm(3), 0 // of one tick, the least origin
		if w.IntN(2) == 0 {
			first = order[0] // born a tick before the others, and not known to them yet
		}
		for i, at := range order {
			w.replicas[at].push(seriesKey{pod("web-1"), "hits", labels(199 - at)})
			if i == 0 && first == at {
				w.now = w.now.Add(time.Second)
			}
		}
		w.settle()
		stay[seriesKey{pod("web-1"), "hits", labels(199 - first)}] = true
		if all := w.union(); !maps.Equal(all, stay) {
			t.Fatalf("seed %d: left are %v; want the first eight and that of %s", seed, sorted(all), w.replicas[first].name)
		}
		w.checkQuiet(t, seed)
	}
}

// Of twins, the oldest decides, and this replica sheds its own one with it.
func TestAnOwnTwinOfAnOlderClaimIsOwn(t *testing.T) {
	twins := []claim{{at: 2, origin: "b", own: true}, {at: 1, origin: "a"}}
	if n := joinTwins(twins); n != 1 || twins[0].origin != "a" || !twins[0].own {
		t.Errorf("%d claims, the first %+v; want that of a, as an own one", n, twins[0])
	}
}

// An idle metric yields at all replicas, although only one of them rejected something.
func TestIdleMetricYieldsAtAllReplicas(t *testing.T) {
	w := newWorld(1)
	for i := range 4 {
		for at := range 3 {
			w.replicas[at].push(seriesKey{pod("web-1"), fmt.Sprint("m", i), metric.Labels{}})
		}
	}
	w.settle()
	pushed := seriesKey{pod("web-1"), "new", metric.Labels{}}
	if w.replicas[0].push(pushed) {
		t.Fatal("a fifth metric was admitted")
	}
	w.idle["m1"] = 2 * time.Hour
	w.settle()
	if !w.replicas[0].push(pushed) {
		t.Fatal("the idle metric did not yield")
	}
	w.settle()
	if all := w.union(); len(all) != 4 || !all[pushed] || all[seriesKey{pod("web-1"), "m1", metric.Labels{}}] {
		t.Errorf("left: %v, want new instead of m1", all)
	}
	w.checkQuiet(t, 1)
}

// The slots of a deleted object are free, even if an origin that had its series is not there to
// remove them.
func TestDeletedObjectLeavesNoSlotAtAnotherOrigin(t *testing.T) {
	w := newWorld(1)
	here, away := w.replicas[0], w.replicas[1]
	ingress := metric.Object{Resource: "ingresses.networking.k8s.io", Namespace: "shop", Name: "main", UID: "1"}
	for i := range 5 {
		away.push(seriesKey{ingress, fmt.Sprint("m", i), metric.Labels{}})
	}
	w.settle()
	external := seriesKey{metric.Object{Namespace: "shop"}, "new", metric.Labels{}}
	if here.push(external) {
		t.Fatal("a sixth metric was admitted")
	}
	here.registry.ObjectGone(ingress)
	here.registry.runJobs()
	if !here.push(external) {
		t.Error("the slots of a deleted object are not free")
	}
	for k := range away.own { // its news come at last
		away.die(k)
	}
	here.die(external)
	w.settle()
	if n := here.registry.scopes(); n != 0 {
		t.Errorf("%d quotas are left", n)
	}
}

// After a limit is lowered, whole metrics yield, the newest first, and none that an autoscaler
// names.
func TestLoweredLimitCostsWholeMetrics(t *testing.T) {
	w := newWorld(1)
	for i, name := range []string{"old", "named", "new"} {
		for at, r := range w.replicas {
			labels := metric.NewLabels([]metric.Label{{Key: "l", Value: fmt.Sprint(at)}})
			r.push(seriesKey{pod("web-1"), name, labels})
		}
		w.now = w.now.Add(time.Duration(i+1) * simultaneous)
	}
	w.settle()
	for _, r := range w.replicas {
		r.named = map[string]bool{"named": true}
		r.limits.Pod = metric.Limit{Metrics: 4, Series: 8}
		r.registry.LimitsChanged("shop")
	}
	w.settle()
	left := map[string]int{}
	for k := range w.union() {
		left[k.name]++
	}
	if want := map[string]int{"old": 3, "named": 3}; !maps.Equal(left, want) {
		t.Errorf("left: %v, want %v", left, want)
	}
	w.checkQuiet(t, 1)
}
