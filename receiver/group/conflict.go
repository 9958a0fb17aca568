package group

import (
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Two groups can contain the same series: a label of one group's path may be a label in the other's
// bodies.
//
//	/metrics/job/a/x/1  with  m{y="2"}
//	/metrics/job/a/y/2  with  m{x="1"}
//
// A Pushgateway then fails every push to either group. Sluice rejects the push that would create
// the conflict: otherwise the table would alternate between the groups' values, and lose the series
// when either group is deleted.
//
// The search needs no index. For a set of grouping label names, a series determines the values, and
// so the only candidate group. There is one candidate per set of names that a namespace's groups
// have; mostly there is one set, and no candidate. Two simultaneous pushes may both find nothing.
// Then both are applied, and the last value counts.
//
// labelNames are the names of a group's labels, sorted.
type labelNames []string

func labelNamesOf(labels metric.Labels) (s labelNames) {
	for key := range labels.All() {
		s = append(s, key)
	}
	return s
}

// maxLabelNameSets limits the groups that one series is looked up in. With more sets of names in a
// namespace, conflicts are not checked: that takes intent, and harms only the namespace itself.
const maxLabelNameSets = 64

// labelNameSets counts the groups of each set of names. The lock of namespaceUsage guards it; list
// is replaced as a whole.
type labelNameSets struct {
	groups map[string]int // by the joined names
	list   []labelNames   // nil: too many
}

func (s *labelNameSets) add(l labelNames) {
	if s.groups == nil {
		s.groups = map[string]int{}
	}
	key := strings.Join(l, "\x00")
	if s.groups[key]++; s.groups[key] == 1 {
		s.rebuildList()
	}
}

func (s *labelNameSets) remove(l labelNames) {
	key := strings.Join(l, "\x00")
	if s.groups[key]--; s.groups[key] == 0 {
		delete(s.groups, key)
		s.rebuildList()
	}
}

// rebuildList makes a new list: readers of the old one continue.
func (s *labelNameSets) rebuildList() {
	s.list = nil
	if len(s.groups) > maxLabelNameSets {
		return
	}
	for key := range s.groups {
		s.list = append(s.list, strings.Split(key, "\x00"))
	}
}

// checkConflict rejects a push with a series of another group. Series that g had before are not
// checked.
func (gs *Groups) checkConflict(g *group, before *contents, fresh []*family) *Rejection {
	all := gs.usage.labelNames(g.usage)
	if len(all) < 2 {
		return nil
	}
	own := labelNamesOf(g.key.Labels)
	for _, l := range all {
		if slices.Equal(own, l) {
			continue // the values differ
		}
		search := conflictSearch{groups: gs, group: g, names: l}
		for _, f := range fresh {
			if old := before.find(f.Name); old != nil && sharesLabels(f, old) {
				continue
			}
			if r := search.family(f); r != nil {
				return r
			}
		}
	}
	return nil
}

// sharesLabels reports whether a family has exactly its earlier series: familyBuilder.family then
// shares their labels.
func sharesLabels(f, old *family) bool {
	return len(f.Metrics) == len(old.Metrics) &&
		(len(f.Metrics) == 0 || &f.Metrics[0].Labels[0] == &old.Metrics[0].Labels[0])
}

// conflictSearch looks for series of one family among the groups with one set of label names.
type conflictSearch struct {
	groups *Groups
	group  *group
	names  labelNames

	labels []metric.Label // of one series, those in names
	last   []metric.Label // of the series before
	found  *group         // for last
}

func (s *conflictSearch) family(f *family) *Rejection {
	var seen map[*group]*labelMatch
	for i := range f.Metrics {
		other := s.candidate(f.Metrics[i].Labels)
		if other == nil {
			continue
		}
		m := seen[other]
		if m == nil {
			found := matchLabels(f, other.contents.Load().find(f.Name))
			m = &found
			if seen == nil {
				seen = map[*group]*labelMatch{}
			}
			seen[other] = m
		}
		if m.indexOf(i) >= 0 {
			return reject(metric.Malformed, "%q with the labels %s is already a series of the group %s and cannot belong to two groups; push it to that group, or delete that group first",
				f.Name, metric.NewLabels(slices.Clone(f.Metrics[i].Labels)), other.key.Labels)
		}
	}
	return nil
}

// candidate is the only group with these label names that could contain the series; nil: there is
// none.
func (s *conflictSearch) candidate(labels []metric.Label) *group {
	s.labels = s.labels[:0]
	for _, l := range labels { // sorted, as names are
		if len(s.labels) < len(s.names) && l.Key == s.names[len(s.labels)] {
			s.labels = append(s.labels, l)
		}
	}
	if len(s.labels) < len(s.names) {
		return nil
	}
	if s.last != nil && slices.Equal(s.last, s.labels) {
		return s.found
	}
	s.last = append(s.last[:0], s.labels...)
	s.found = s.groups.lookup(s.keyOf(s.labels))
	if s.found != nil && (s.found.about != s.group.about || s.found.contents.Load() == nil) {
		s.found = nil
	}
	return s.found
}

// keyOf is the key of a group with these labels. The label of the namespace overrides the group's
// own namespace.
func (s *conflictSearch) keyOf(labels []metric.Label) Key {
	k := Key{Namespace: s.group.key.Namespace, Labels: metric.NewLabels(slices.Clone(labels))}
	if namespace, _ := k.Labels.Get(NamespaceLabel); namespace != "" {
		k.Namespace = namespace
	}
	return k
}

// lookup returns the group of a key without its lock; nil: there is none.
func (gs *Groups) lookup(k Key) *group {
	h := k.Hash()
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[h]
}
