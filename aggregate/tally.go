package aggregate

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// tally counts series for lists. Of one origin it counts as it goes. Twins of several origins count
// once: their hashes are gathered, sixteen bytes a series, and counted at the end.
type tally struct {
	sources []source
	buffer  *index.Buffer
	counts  []count
	marks   []memberMark // with several origins
	some    []foundItem
}

// count is what is known of one listed item.
type count struct {
	members int // objects of a metric, or metrics of an object
	series  int
	newest  newestSample
	// names are some of the metrics of an object, or the keys of labels of a metric, sorted.
	names  []string
	looked int // series of a metric whose labels were looked at
}

// Bounds of count.names, and of the series that are looked at for them.
const (
	maxNames  = 8
	maxLooked = 16
)

// addName adds a name, if it is new and there is room.
func (c *count) addName(name string) {
	at, has := slices.BinarySearch(c.names, name)
	if !has && len(c.names) < maxNames {
		c.names = slices.Insert(c.names, at, name)
	}
}

// newestSample is the newest sample so far: a stamp of a source's clock.
type newestSample struct {
	source int
	stamp  window.LifeStamp
	any    bool
}

// memberMark is a member of an item, or a series of it.
type memberMark struct {
	item   int32
	series bool
	hash   uint64
}

var tallySeed = maphash.MakeSeed()

func newTally(sources []source) *tally {
	return &tally{sources: sources, buffer: index.BufferFor(0)}
}

func (r *tally) release() { r.buffer.Release() }

// begin makes all counts of n items zero.
func (r *tally) begin(n int) {
	r.counts, r.marks = append(r.counts[:0], make([]count, n)...), r.marks[:0]
}

// metric counts one metric.
func (r *tally) metric(place Place) MetricSummary {
	r.begin(1)
	var kinds index.KindCounts
	for i := range r.sources {
		have, _ := r.sources[i].table.index.WalkEntries(index.Key(place), r.buffer, func(some []index.Found) {
			for _, found := range some {
				r.add(0, i, found, found.Entry.Name)
				r.lookAtLabels(i, found)
			}
		})
		for k, n := range have {
			kinds[k] += n
		}
	}
	r.countMarks()
	c := &r.counts[0]
	if place.Resource == "" {
		c.members = 0
	}
	return MetricSummary{Place: place, Kind: mostFrequent(kinds), Objects: c.members, Series: c.series,
		LastSample: c.newest.date(r.sources), LabelKeys: c.names}
}

// lookAtLabels notes the keys of the labels of some series of a metric.
func (r *tally) lookAtLabels(at int, found index.Found) {
	c := &r.counts[0]
	for _, ref := range found.Series {
		if c.looked == maxLooked {
			return
		}
		c.looked++
		if packed, live := r.sources[at].labelsOf(ref, found.Entry); live {
			for key := range metric.TrustPackedLabels(packed).All() {
				c.addName(strings.Clone(key))
			}
		}
	}
}

func mostFrequent(kinds index.KindCounts) metric.Kind {
	kind := metric.NoKind
	for k, n := range kinds {
		if n > 0 && (kind == metric.NoKind || n > kinds[kind]) {
			kind = metric.Kind(k)
		}
	}
	return kind
}

// objects counts the series of some objects.
func (r *tally) objects(of []Place) []ObjectSummary {
	r.begin(len(of))
	wanted := map[Place]map[string]int32{} // by resource and namespace: the items by name
	for i, place := range of {
		if place.Resource == "" {
			continue // no object
		}
		group := Place{Resource: place.Resource, Namespace: place.Namespace}
		if wanted[group] == nil {
			wanted[group] = map[string]int32{}
		}
		wanted[group][place.Name] = int32(i)
	}
	for i := range r.sources {
		r.sources[i].table.index.EachFamily(func(f *index.Family) {
			if names := wanted[Place{Resource: f.Key.Resource, Namespace: f.Key.Namespace}]; names != nil {
				r.familyLocked(i, f, names)
			}
		})
	}
	r.countMarks()
	all := make([]ObjectSummary, len(of))
	for i, c := range r.counts {
		all[i] = ObjectSummary{Place: of[i], Metrics: c.members, Series: c.series,
			LastSample: c.newest.date(r.sources), MetricNames: c.names}
	}
	return all
}

// foundItem is an entry of a listed item.
type foundItem struct {
	item int32
	index.Found
}

// familyLocked counts the series of a family whose objects are wanted. It looks the objects up, or
// visits the family's, whichever are fewer. It releases the lock of the family's shard now and
// then, and while it counts.
func (r *tally) familyLocked(source int, f *index.Family, names map[string]int32) {
	r.some = r.some[:0]
	addAll := func(e *index.Entry, item int32) {
		for ; e != nil; e = e.Older {
			r.some = append(r.some, foundItem{item, index.Found{Entry: e, Series: e.Series}})
		}
		if len(r.some) >= index.EntriesPerHold {
			r.countUnlocked(source, f)
		}
	}
	if f.SizeLocked() < len(names) {
		for e := range f.Entries.All() {
			if item, wanted := names[e.Name]; wanted {
				addAll(e, item)
			}
		}
	} else {
		for name, item := range names {
			addAll(f.NamedLocked(name), item)
		}
	}
	r.countUnlocked(source, f)
}

// countUnlocked counts what familyLocked has found, without the lock.
func (r *tally) countUnlocked(source int, f *index.Family) {
	if len(r.some) == 0 {
		return
	}
	f.Shard.Mu.Unlock()
	for _, foundItem := range r.some {
		if r.add(foundItem.item, source, foundItem.Found, f.Key.Name) {
			r.counts[foundItem.item].addName(f.Key.Name)
		}
	}
	r.some = r.some[:0]
	f.Shard.Mu.Lock()
}

// add counts the live series of an entry. member is what the entry counts as: its object, or its
// metric. It reports whether there is one.
func (r *tally) add(item int32, at int, found index.Found, member string) bool {
	s, n := &r.sources[at], 0
	several := len(r.sources) > 1
	for _, ref := range found.Series {
		stamp, live := s.lastSeen(ref, found.Entry.External())
		if !live {
			continue
		}
		n++
		r.counts[item].newest.see(r.sources, at, stamp)
		if several {
			r.markSeries(item, s, ref, found.Entry, member)
		}
	}
	switch {
	case n == 0:
	case several:
		r.marks = append(r.marks, memberMark{item, false, maphash.Comparable(tallySeed, [2]string{member, found.Entry.UID})})
	default:
		r.counts[item].members++
		r.counts[item].series += n
	}
	return n > 0
}

// markSeries marks a series by what distinguishes it in its item.
func (r *tally) markSeries(item int32, s *source, ref lookup.Ref, e *index.Entry, member string) {
	b, place := s.table.blocks.of(ref.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if b.page.cells[place].State.Load() == ref.State {
		hash := maphash.Comparable(tallySeed, [3]string{member, e.UID, b.series[place].packed()})
		r.marks = append(r.marks, memberMark{item, true, hash})
	}
}

// countMarks counts the marks, each once.
func (r *tally) countMarks() {
	slices.SortFunc(r.marks, func(a, b memberMark) int {
		return cmp.Or(cmp.Compare(a.item, b.item), cmp.Compare(a.hash, b.hash))
	})
	for _, m := range slices.Compact(r.marks) {
		if m.series {
			r.counts[m.item].series++
		} else {
			r.counts[m.item].members++
		}
	}
}

// see counts a sample.
func (n *newestSample) see(sources []source, at int, stamp window.LifeStamp) {
	switch {
	case !n.any:
	case n.source == at && stamp <= n.stamp:
		return
	case n.source != at && !sources[at].now.DateOf(stamp).After(n.date(sources)):
		return
	}
	*n = newestSample{at, stamp, true}
}

// date is the arrival of the sample; zero: there is none.
func (n *newestSample) date(sources []source) time.Time {
	if !n.any {
		return time.Time{}
	}
	return sources[n.source].now.DateOf(n.stamp)
}
