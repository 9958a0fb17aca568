package group

import (
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Two groups can have one series: what the one has in its path, the other may have in its bodies.
//
//	/metrics/job/a/x/1  with  m{y="2"}
//	/metrics/job/a/y/2  with  m{x="1"}
//
// A Pushgateway then fails every push to either. Here the second one is refused, for else the table would hold now what the one
// and now what the other says, and nothing once either is deleted.
//
// Which groups those could be needs no index: the group of a series whose grouping labels have certain names is the one with the
// series' values of them. So there is one to look at for each set of names that groups about a namespace have: mostly there
// is one such set, and nothing to look at. Two pushes at the same moment may both find nothing; then both are taken, and served as
// they were pushed last.

// shape is the names of a group's labels, sorted.
type shape []string

func shapeOf(labels metric.Labels) (s shape) {
	for key := range labels.All() {
		s = append(s, key)
	}
	return s
}

// maxShapes bounds the groups that one series is looked for in. Where a namespace's groups have more sets of names, nothing is
// looked at: nobody's have, but by intent, and who has such intent hurts the own namespace alone.
const maxShapes = 64

// shapes are those that groups have, and how many have each. They are guarded by the tally's lock; the list is replaced whole.
type shapes struct {
	groups map[string]int // by the shape, joined
	list   []shape        // nil: they are too many
}

func (s *shapes) add(one shape) {
	if s.groups == nil {
		s.groups = map[string]int{}
	}
	key := strings.Join(one, "\x00")
	if s.groups[key]++; s.groups[key] == 1 {
		s.enlist()
	}
}

func (s *shapes) remove(one shape) {
	key := strings.Join(one, "\x00")
	if s.groups[key]--; s.groups[key] == 0 {
		delete(s.groups, key)
		s.enlist()
	}
}

// enlist makes a new list: who reads the old one goes on.
func (s *shapes) enlist() {
	s.list = nil
	if len(s.groups) > maxShapes {
		return
	}
	for key := range s.groups {
		s.list = append(s.list, strings.Split(key, "\x00"))
	}
}

// rival says which other group has a series that a push brings to g; nil: none. Series that g had before are not looked at.
func (gs *Groups) rival(g *group, before *contents, fresh []*family) *Rejection {
	all := gs.tally.shapes(g.usage)
	if len(all) < 2 {
		return nil
	}
	own := shapeOf(g.key.Labels)
	for _, one := range all {
		if slices.Equal(own, one) {
			continue // the values are other ones
		}
		search := search{groups: gs, group: g, shape: one}
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

// sharesLabels says whether a family has the series that it had before, one by one: merger.family shares their labels then.
func sharesLabels(f, old *family) bool {
	return len(f.Metrics) == len(old.Metrics) && (len(f.Metrics) == 0 || &f.Metrics[0].Labels[0] == &old.Metrics[0].Labels[0])
}

// search looks for rivals among the groups of one shape.
type search struct {
	groups *Groups
	group  *group
	shape  shape

	labels []metric.Label // those of the shape that a series has
	last   []metric.Label // of the series before
	found  *group         // for last
}

func (s *search) family(f *family) *Rejection {
	var seen map[*group]*matched
	for i := range f.Metrics {
		other := s.candidate(f.Metrics[i].Labels)
		if other == nil {
			continue
		}
		m := seen[other]
		if m == nil {
			found := matching(f, other.contents.Load().find(f.Name))
			m = &found
			if seen == nil {
				seen = map[*group]*matched{}
			}
			seen[other] = m
		}
		if m.of(i) >= 0 {
			return refuse(metric.Malformed, "%q with the labels %s is a series of the group %s already, and cannot be one of two groups: push it to that one, or delete that first",
				f.Name, metric.NewLabels(slices.Clone(f.Metrics[i].Labels)), other.key.Labels)
		}
	}
	return nil
}

// candidate is the group of the shape that a series of these labels could be of; nil: there is none.
func (s *search) candidate(labels []metric.Label) *group {
	s.labels = s.labels[:0]
	for _, l := range labels { // sorted, as the shape is
		if len(s.labels) < len(s.shape) && l.Key == s.shape[len(s.labels)] {
			s.labels = append(s.labels, l)
		}
	}
	if len(s.labels) < len(s.shape) {
		return nil
	}
	if s.last != nil && slices.Equal(s.last, s.labels) {
		return s.found
	}
	s.last = append(s.last[:0], s.labels...)
	s.found = s.groups.at(s.keyOf(s.labels))
	if s.found != nil && (s.found.about != s.group.about || s.found.contents.Load() == nil) {
		s.found = nil
	}
	return s.found
}

// keyOf is the key of a group with these labels: of the namespace that they say, else of the same as ours.
func (s *search) keyOf(labels []metric.Label) Key {
	k := Key{Namespace: s.group.key.Namespace, Labels: metric.NewLabels(slices.Clone(labels))}
	if namespace, _ := k.Labels.Get(NamespaceLabel); namespace != "" {
		k.Namespace = namespace
	}
	return k
}

// at is the group of a key, whose lock is not taken; nil: there is none.
func (gs *Groups) at(k Key) *group {
	h := k.Hash()
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[h]
}
