package group

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/smallest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Group is a snapshot of one group. It is immutable.
type Group struct {
	Key    Key
	Object metric.Object
	// Pushed is the time of the last push that was applied, Failed of the last one rejected; zero:
	// never.
	Pushed, Failed time.Time
	// Expires is the end of the group without another push; zero: never.
	Expires time.Time

	contents *contents
}

// Families yields the families as readers see them, in the order of their names, with the time of the
// last push of each. They must not be changed.
func (g *Group) Families() iter.Seq2[*exposition.Family, time.Time] {
	namespace := g.addedNamespace()
	return func(yield func(*exposition.Family, time.Time) bool) {
		for _, f := range g.contents.families {
			if !yield(shown(&f.Family, namespace), timeOf(f.pushed)) {
				return
			}
		}
	}
}

// All returns the current groups, sorted by namespace and then by labels. It holds one shard's lock
// at a time, and no group's. May selects groups by the described object; nil selects all.
func (gs *Groups) All(may func(about metric.Object) bool) []Group {
	all, now := make([]Group, 0, gs.Count()), gs.table.Lifetime()
	for i := range gs.shards {
		for _, g := range gs.shards[i].all() {
			c := g.contents.Load()
			if c == nil || c.expired(now) || may != nil && !may(g.about) {
				continue
			}
			all = append(all, g.snapshot(c))
		}
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace),
			cmp.Compare(a.Key.Labels.Packed(), b.Key.Labels.Packed()))
	})
	return all
}

// Find returns the group of a key; false: there is none.
func (gs *Groups) Find(k Key) (Group, bool) {
	g := gs.lockExisting(k.Hash())
	if g == nil {
		return Group{}, false
	}
	defer g.mu.Unlock()
	c := g.contents.Load()
	if c == nil || c.expired(gs.table.Lifetime()) {
		return Group{}, false
	}
	return g.snapshot(c), true
}

func (g *group) snapshot(c *contents) Group {
	return Group{g.key, g.about, timeOf(c.pushed), timeOf(c.failed), timeOf(c.expires()), c}
}

// Part selects a page of the groups.
type Part struct {
	Namespace string // empty: all
	Job       string // empty: all
	After     Key    // of the last group of the page before; zero: the first page
	Most      int    // groups, at least 1
}

// Listed returns a page of the groups, sorted by namespace, job and labels. more reports whether
// there are others. It locks as All does.
func (gs *Groups) Listed(p Part) (page []Group, more bool) {
	first, now := smallest.Of(p.Most, compareGroups), gs.table.Lifetime()
	after := Group{Key: p.After}
	for i := range gs.shards {
		for _, g := range gs.shards[i].all() {
			c := g.contents.Load()
			if c == nil || c.expired(now) || p.Namespace != "" && p.Namespace != g.key.Namespace ||
				p.Job != "" && p.Job != g.key.job() {
				continue
			}
			group := g.snapshot(c)
			if p.After == (Key{}) || compareGroups(&group, &after) > 0 {
				first.Add(group)
			}
		}
	}
	return first.Sorted()
}

func compareGroups(a, b *Group) int {
	return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.job(), b.Key.job()),
		strings.Compare(a.Key.Labels.Packed(), b.Key.Labels.Packed()))
}

func (k *Key) job() string {
	job, _ := k.Labels.Get("job")
	return job
}

// Size is the number of families and of series of the group.
func (g *Group) Size() (families, series int) {
	for _, f := range g.contents.families {
		series += len(f.Metrics)
	}
	return len(g.contents.families), series
}

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// PushTimeFamilies returns push_failure_time_seconds and push_time_seconds, which every group has,
// in the order of the groups.
func PushTimeFamilies(groups []Group) [2]exposition.Family {
	own := [2]exposition.Family{
		{Name: failureTime, Type: exposition.GaugeType,
			Help: "Last Unix time when changing this group in the Pushgateway failed."},
		{Name: pushTime, Type: exposition.GaugeType,
			Help: "Last Unix time when changing this group in the Pushgateway succeeded."},
	}
	for i := range own {
		own[i].Metrics = make([]exposition.Metric, len(groups))
	}
	for i := range groups {
		labels := groups[i].ownLabels()
		own[0].Metrics[i] = exposition.Metric{Labels: labels, Value: seconds(groups[i].Failed)}
		own[1].Metrics[i] = exposition.Metric{Labels: labels, Value: seconds(groups[i].Pushed)}
	}
	return own
}

func (g *Group) ownLabels() []metric.Label {
	labels, hasInstance := make([]metric.Label, 0, 8), false
	for key, value := range g.Key.Labels.All() {
		labels = append(labels, metric.Label{Key: key, Value: value})
		hasInstance = hasInstance || key == instance
	}
	if !hasInstance {
		labels = append(labels, metric.Label{Key: instance})
	}
	if namespace := g.addedNamespace(); namespace != "" {
		return appendInNamespace(nil, labels, namespace)
	}
	return metric.SortLabels(labels)
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

// usage is the use of the limits by the groups about one namespace. A group holds it as long as it
// lives.
type usage struct {
	namespace string
	groups    int64  // guarded by the lock of namespaceUsage
	shapes    shapes // guarded by the lock of namespaceUsage
	bytes     atomic.Int64
}

// namespaceUsage holds the usage of each namespace that has a group. The lock is the innermost,
// within a shard's and a group's, and is held for map operations only.
type namespaceUsage struct {
	mu          sync.Mutex
	byNamespace map[string]*usage
}

// addGroup counts one more group about an object; it returns nil if its namespace has reached the limit.
// A negative limit is none.
func (t *namespaceUsage) addGroup(k Key, about metric.Object, limit int64) *usage {
	namespace, one := about.InNamespace(), shapeOf(k, &about)
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.byNamespace[namespace]
	if u == nil {
		u = &usage{namespace: namespace}
	}
	if limit >= 0 && u.groups >= limit {
		return nil
	}
	u.groups++
	u.shapes.add(one)
	t.byNamespace[namespace] = u
	return u
}

func (t *namespaceUsage) removeGroup(g *group) {
	u, one := g.usage, shapeOf(g.key, &g.about)
	t.mu.Lock()
	defer t.mu.Unlock()
	u.shapes.remove(one)
	if u.groups--; u.groups == 0 {
		delete(t.byNamespace, u.namespace)
	}
}

// shapes lists the shapes of a namespace's groups. The list is immutable.
func (t *namespaceUsage) shapes(u *usage) []shape {
	t.mu.Lock()
	defer t.mu.Unlock()
	return u.shapes.list
}

// share is the part of the limits that one namespace may use; negative: unlimited. Groups about no
// namespace have no share: only senders with rights on the whole cluster push them.
func (c Config) share(namespace string) (groups, bytes int64) {
	if c.NamespaceShare == 0 || namespace == "" {
		return -1, -1
	}
	return max(1, int64(c.NamespaceShare*float64(c.MaxGroups))), int64(c.NamespaceShare * float64(c.MaxBytes))
}

// checkBytes rejects growth beyond the limits.
func (gs *Groups) checkBytes(u *usage, more int64) *Rejection {
	_, limit := gs.config.share(u.namespace)
	switch {
	case more <= 0:
		return nil
	case gs.bytes.Load()+more > gs.config.MaxBytes:
		return reject(metric.OverLimit, "memory limit of all groups (%d bytes) reached; delete groups or push with a TTL",
			gs.config.MaxBytes)
	case limit >= 0 && u.bytes.Load()+more > limit:
		return reject(metric.OverLimit,
			"memory limit of the groups of namespace %s (%d bytes) reached; delete groups or push with a TTL", u.namespace, limit)
	}
	return nil
}

// Restrict drops the series from a snapshot that a reader may not have. mayHaveAll reports whether the reader
// may have all series of a metric, mayHave whether it may have one of them.
func (g *Group) Restrict(mayHaveAll func(name string, k metric.Kind) bool,
	mayHave func(name string, k metric.Kind, labels metric.Labels) bool) {
	kept := contents{times: g.contents.times}
	var labels sampleBuilder
	for _, f := range g.contents.families {
		k := f.Type.Kind()
		if mayHaveAll(f.Name, k) {
			kept.families = append(kept.families, f)
			continue
		}
		part := &family{Family: f.Family, pushed: f.pushed}
		part.Metrics = nil
		for i := range f.Metrics {
			if mayHave(f.Name, k, labels.labelSet(&g.Object, f, i)) {
				part.Metrics = append(part.Metrics, f.Metrics[i])
			}
		}
		if len(part.Metrics) > 0 {
			kept.families = append(kept.families, part)
		}
	}
	g.contents = &kept
}
