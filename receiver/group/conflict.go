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
// Their paths can also name one object in different ways, as pods/web-1 and pod/web-1: the table's
// series have neither that label nor, of an object, the one of the namespace.
//
// The search needs no index. For a shape, a series determines the labels of the path, and so the only
// candidate group. There is one candidate per shape that a namespace's groups have; mostly there is
// one shape, and no candidate. Two simultaneous pushes may both find nothing. Then both are applied,
// and the last value counts.
//
// shape is all of a group's key but what its series tell.
type shape struct {
	id string // equal shapes have equal ones
	// names are the names of the labels that the series have, too. Sorted.
	names []string
	// unserved are the other labels of the path. Of ObjectLabel, the object's name is left out.
	unserved  []metric.Label
	namespace string // of the key
	resource  string // of the object
}

func shapeOf(k Key, about *metric.Object) shape {
	s := shape{namespace: k.Namespace, resource: about.Resource}
	id := metric.AppendLabels(nil, []metric.Label{{Key: s.namespace, Value: s.resource}})
	_, claims := k.Labels.Get(ObjectLabel)
	for key, value := range k.Labels.All() {
		if !isUnserved(key, claims, about) {
			s.names = append(s.names, key)
			id = metric.AppendLabels(id, []metric.Label{{Key: key}})
			continue
		}
		if key == ObjectLabel {
			value = strings.TrimSuffix(value, about.Name)
		}
		l := metric.Label{Key: key, Value: value}
		s.unserved = append(s.unserved, l)
		id = metric.AppendLabels(id, []metric.Label{l})
	}
	s.id = string(id)
	return s
}

// maxShapes limits the groups that one series is looked up in. With more shapes in a namespace,
// conflicts are not checked: that takes intent, and harms only the namespace itself.
const maxShapes = 64

// shapes counts the groups of each shape. The lock of namespaceUsage guards it; list is replaced as a
// whole.
type shapes struct {
	groups map[string]*countedShape // by id
	list   []shape                  // nil: too many
}

type countedShape struct {
	shape
	groups int
}

func (s *shapes) add(one shape) {
	if s.groups == nil {
		s.groups = map[string]*countedShape{}
	}
	if counted := s.groups[one.id]; counted != nil {
		counted.groups++
		return
	}
	s.groups[one.id] = &countedShape{one, 1}
	s.rebuildList()
}

func (s *shapes) remove(one shape) {
	counted := s.groups[one.id]
	if counted.groups--; counted.groups == 0 {
		delete(s.groups, one.id)
		s.rebuildList()
	}
}

// rebuildList makes a new list: readers of the old one continue.
func (s *shapes) rebuildList() {
	s.list = nil
	if len(s.groups) > maxShapes {
		return
	}
	for _, counted := range s.groups {
		s.list = append(s.list, counted.shape)
	}
}

// checkConflict rejects a push with a series of another group. Series that g had before are not
// checked.
func (gs *Groups) checkConflict(g *group, before *contents, fresh []*family) *Rejection {
	all := gs.usage.shapes(g.usage)
	if len(all) < 2 {
		return nil
	}
	own := shapeOf(g.key, &g.about)
	for i := range all {
		if all[i].id == own.id || all[i].resource != own.resource {
			continue // the labels differ, or the object does
		}
		search := conflictSearch{groups: gs, group: g, shape: &all[i]}
		for _, f := range fresh {
			if old := before.find(f.Name); old != nil && sharesLabels(f, old) {
				continue
			}
			if r := search.family(inTable(&g.about, f)); r != nil {
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

// conflictSearch looks for series of one family, with the labels of the table, among the groups of one
// shape.
type conflictSearch struct {
	groups *Groups
	group  *group
	shape  *shape

	labels []metric.Label // of one series, those in the shape's names
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
			found := matchLabels(f, inTable(&other.about, other.contents.Load().find(f.Name)))
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

// candidate is the only group of the shape that could contain the series; nil: there is none.
func (s *conflictSearch) candidate(labels []metric.Label) *group {
	names := s.shape.names
	s.labels = s.labels[:0]
	for _, l := range labels { // sorted, as names are
		if len(s.labels) < len(names) && l.Key == names[len(s.labels)] {
			s.labels = append(s.labels, l)
		}
	}
	if len(s.labels) < len(names) {
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

// keyOf is the key of the shape's group with these labels.
func (s *conflictSearch) keyOf(labels []metric.Label) Key {
	all := append(slices.Clone(labels), s.shape.unserved...)
	for i := range all {
		if all[i].Key == ObjectLabel {
			all[i].Value += s.group.about.Name
		}
	}
	return Key{Namespace: s.shape.namespace, Labels: metric.NewLabels(all)}
}

// lookup returns the group of a key without its lock; nil: there is none.
func (gs *Groups) lookup(k Key) *group {
	h := k.Hash()
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[h]
}
