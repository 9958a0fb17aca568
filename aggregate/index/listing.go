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

func (f *firstNames) add(one metric.Discovered) {
	if len(f.names) == f.limit && (f.limit == 0 || compareNames(one, f.names[f.limit-1]) > 0) {
		return
	}
	at, has := slices.BinarySearchFunc(f.names, one, compareNames)
	if has {
		f.names[at].Kind = min(f.names[at].Kind, one.Kind)
		return
	}
	if len(f.names) == f.limit {
		f.names = f.names[:f.limit-1]
	}
	f.names = slices.Insert(f.names, at, one)
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
		one := metric.Family{Resource: f.Key.Resource, Namespace: f.Key.Namespace, Name: f.Key.Name}
		for k, n := range f.kinds {
			if n > 0 {
				one.Kinds |= metric.KindSetOf(metric.Kind(k))
			}
		}
		if match(&one) {
			dst = append(dst, one)
		}
		seen++
		s.Yield(seen)
	}
	return dst
}
