package group

import (
	"cmp"
	"iter"
	"slices"
	"strings"
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

// Families yields the families in the order of their names, with the time of the last push of each.
// They must not be changed.
func (g *Group) Families() iter.Seq2[*exposition.Family, time.Time] {
	return func(yield func(*exposition.Family, time.Time) bool) {
		for _, f := range g.contents.families {
			if !yield(&f.Family, timeOf(f.pushed)) {
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
			all = append(all, Group{g.key, g.about, timeOf(c.pushed), timeOf(c.failed), timeOf(c.expires()), c})
		}
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Labels.Packed(), b.Key.Labels.Packed()))
	})
	return all
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
			one := Group{g.key, g.about, timeOf(c.pushed), timeOf(c.failed), timeOf(c.expires()), c}
			if p.After == (Key{}) || compareGroups(&one, &after) > 0 {
				first.Add(one)
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
	for f := range g.Families() {
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
		{Name: failureTime, Type: exposition.GaugeType, Help: "Last Unix time when changing this group in the Pushgateway failed."},
		{Name: pushTime, Type: exposition.GaugeType, Help: "Last Unix time when changing this group in the Pushgateway succeeded."},
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
	return metric.SortLabels(labels)
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}
