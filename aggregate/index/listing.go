package index

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// listing caches the last list of metrics for ten times as long as it took to make. So clients
// whose discovery repeats do not scan a table of two million names each time, and the list of a
// small table is nearly always fresh.
type listing struct {
	mu    sync.Mutex
	made  time.Time
	Took  time.Duration // the time that the last list took to make
	limit int
	list  []metric.Discovered
}

const listingShare = 10

// Listed returns the distinct metrics, in a stable order: at most limit external metrics, then at
// most limit metrics of objects. A metric of several kinds is listed once, with the lowest kind.
func (x *Index) Listed(limit int) []metric.Discovered {
	l := &x.List
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.limit == limit && now.Sub(l.made) < listingShare*l.Took {
		return slices.Clone(l.list)
	}
	external, objects := firstNames{limit: limit}, firstNames{limit: limit}
	for i := range x.Shards {
		x.Shards[i].list(&external, &objects)
	}
	l.list = append(external.names, objects.names...)
	l.made, l.Took, l.limit = time.Now(), time.Since(now), limit
	return slices.Clone(l.list)
}

func (s *Shard) list(external, objects *firstNames) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	seen := 0
	for f := range s.Each() {
		to := objects
		if f.Key.Resource == "" {
			to = external
		}
		for e := range f.Entries.All() {
			to.add(metric.Discovered{Resource: f.Key.Resource, Name: f.Key.Name, Kind: e.Kind})
			seen++
			s.Yield(seen)
		}
	}
}

// firstNames keeps the first limit distinct names of those added, sorted.
type firstNames struct {
	limit int
	names []metric.Discovered
}

func (f *firstNames) add(discovered metric.Discovered) {
	if len(f.names) == f.limit && (f.limit == 0 || compareNames(discovered, f.names[f.limit-1]) > 0) {
		return
	}
	at, has := slices.BinarySearchFunc(f.names, discovered, compareNames)
	if has {
		f.names[at].Kind = min(f.names[at].Kind, discovered.Kind)
		return
	}
	if len(f.names) == f.limit {
		f.names = f.names[:f.limit-1]
	}
	f.names = slices.Insert(f.names, at, discovered)
}

func compareNames(a, b metric.Discovered) int {
	return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
}

// AppendFamilies appends the families that match.
func (x *Index) AppendFamilies(dst []metric.Family, match func(*metric.Family) bool) []metric.Family {
	for i := range x.Shards {
		dst = x.Shards[i].appendFamilies(dst, match)
	}
	return dst
}

func (s *Shard) appendFamilies(dst []metric.Family, match func(*metric.Family) bool) []metric.Family {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	seen := 0
	for f := range s.Each() {
		family := metric.Family{Resource: f.Key.Resource, Namespace: f.Key.Namespace, Name: f.Key.Name}
		for k, n := range f.kinds {
			if n > 0 {
				family.Kinds |= metric.KindSetOf(metric.Kind(k))
			}
		}
		if match(&family) {
			dst = append(dst, family)
		}
		seen++
		s.Yield(seen)
	}
	return dst
}

// Walks visit many families or entries for lists. Like reads, they hold a shard's lock for
// EntriesPerHold steps at a time. A family or entry that exists all the time is visited; one that
// is created or removed meanwhile may be.

// EachFamily calls visit with every family, under the lock of its shard. visit keeps no entry.
func (x *Index) EachFamily(visit func(*Family)) {
	for i := range x.Shards {
		x.Shards[i].eachFamily(visit)
	}
}

func (s *Shard) eachFamily(visit func(*Family)) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	seen := 0
	for f := range s.Each() {
		visit(f)
		seen++
		s.Yield(seen)
	}
}

// EachNameLocked calls visit with the name of every object of the family. It may release the lock
// of the family's shard for a moment.
func (f *Family) EachNameLocked(visit func(name string)) {
	seen := 0
	for e := range f.Entries.All() {
		visit(e.Name)
		seen++
		f.Shard.Yield(seen)
	}
}

// NamedLocked returns the newest entry of an object name, or nil. The older ones follow it.
func (f *Family) NamedLocked(name string) *Entry { return f.named(name) }

// SizeLocked is the number of names.
func (f *Family) SizeLocked() int { return f.Entries.live }

// WalkEntries calls visit with all entries of a family, some at a time and without a lock. It
// returns the number of entries of each kind, and false if there is no such family. visit does not
// keep the slice, whose memory is the buffer's.
func (x *Index) WalkEntries(key Key, buffer *Buffer, visit func([]Found)) (kinds KindCounts, exists bool) {
	shard, hash := x.ShardOfKey(key)
	shard.Mu.Lock()
	f := shard.Family(hash, key)
	if f == nil {
		shard.Mu.Unlock()
		return kinds, false
	}
	kinds = f.kinds
	some := buffer.found[:0]
	for e := range f.Entries.All() {
		if some = appendFound(some, e, true); len(some) >= EntriesPerHold {
			shard.Mu.Unlock()
			visit(some)
			some = some[:0]
			shard.Mu.Lock()
		}
	}
	shard.Mu.Unlock()
	visit(some)
	buffer.found = some
	return kinds, true
}
