package index

import (
	"cmp"
	"encoding/binary"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// Found is an entry as a reader took it.
type Found struct {
	Entry  *Entry
	Series []lookup.Ref
}

// EntriesPerHold is how many entries are looked at while the shard's lock is held once: a writer
// that creates a series waits for no more, and whoever waits for the processor gets it in between.
// What comes or goes between two pieces of one answer may be in it or not; what was there all the
// time is.
const EntriesPerHold = 512

// Buffer is room for the entries of one answer. An answer that is read again and again finds it in
// smallBuffers, so that a read makes little work for the collector.
type Buffer struct {
	found, sorted []Found
	order         []orderKey
	unsure        []unsure
}

// smallBuffers is room for answers of up to mostSmall entries, largeBuffers for larger ones, which is gone soon
// where nobody asks for such: the collector has to look through it.
var (
	smallBuffers = sync.Pool{New: func() any { return new(Buffer) }}
	largeBuffers = sync.Pool{New: func() any { return new(Buffer) }}
)

const mostSmall = 4096

// BufferFor is room for so many entries.
func BufferFor(n int) *Buffer {
	if n > mostSmall {
		return largeBuffers.Get().(*Buffer)
	}
	return smallBuffers.Get().(*Buffer)
}

func (r *Buffer) Release() {
	if cap(r.found) > mostSmall {
		largeBuffers.Put(r)
		return
	}
	smallBuffers.Put(r)
}

// Scope is whom a query is about: a few objects that were listed, or one or all of a family.
type Scope struct {
	few        iter.Seq[metric.Object] // nil: they were not listed
	MaxEntries int                     // of series, for an external metric
}

// ScopeOf says whom a query is about. Where those who pick objects can list fewer than the family
// has, these are looked up and no other is touched.
func (x *Index) ScopeOf(key Key, q *metric.Query) Scope {
	size := x.size(key, q.Object)
	if q.Object == "*" && q.ListObjects != nil {
		if few, n, ok := q.ListObjects(size); ok {
			return Scope{few, n}
		}
	}
	return Scope{MaxEntries: size}
}

// Find returns the entries that a query is about, in the order of names.
func (x *Index) Find(key Key, q *metric.Query, scope Scope, buffer *Buffer) []Found {
	if scope.few != nil {
		return x.named(key, scope.few, scope.MaxEntries, buffer)
	}
	return x.FindObject(key, q.Object, metric.ObjectFilter{Match: q.MatchObject, Removed: q.RemovedObjects}, buffer)
}

// FindObject returns the entries of a family: of one object, or of all ("*"), those that are taken.
// Where nobody tells objects of one name apart, the newest stands for all.
func (x *Index) FindObject(key Key, object string, pick metric.ObjectFilter, buffer *Buffer) []Found {
	known := pick.Match
	shard, hash := x.ShardOfKey(key)
	shard.Mu.Lock()
	f := shard.Family(hash, key)
	if f == nil {
		shard.Mu.Unlock()
		return nil
	}
	changes, size, kept := f.Changes, f.Entries.live, f.Order
	switch {
	case object != "*":
		buffer.found = appendFound(buffer.found[:0], f.named(object), known != nil)
	case known != nil && kept != nil:
		shard.Mu.Unlock()
		return f.ordered(kept, pick, buffer)
	default:
		buffer.found = f.appendAllLocked(slices.Grow(buffer.found[:0], size), known != nil)
	}
	shard.Mu.Unlock()
	out := buffer.sort()
	if known == nil {
		return out
	}
	if object == "*" && size >= OrderedFrom {
		x.Keep(f, changes, out)
	}
	return slices.DeleteFunc(out, func(one Found) bool { return !known(one.Entry.Object()) })
}

// appendAllLocked takes all entries, and lets others have the lock now and then: nothing that stays
// is passed over.
func (f *Family) appendAllLocked(out []Found, elders bool) []Found {
	seen := 0
	for e := range f.Entries.All() {
		out = appendFound(out, e, elders)
		seen++
		f.Shard.Yield(seen)
	}
	return out
}

// Yield lets go of the lock for a moment if so many entries have been looked at.
func (s *Shard) Yield(seen int) {
	if seen%EntriesPerHold == 0 {
		s.Mu.Unlock()
		runtime.Gosched()
		s.Mu.Lock()
	}
}

// appendFound appends an entry, and all its elders if they are told apart.
func appendFound(out []Found, e *Entry, all bool) []Found {
	for ; e != nil; e = e.Older {
		out = append(out, Found{e, e.Series})
		if !all {
			break
		}
	}
	return out
}

// named returns the entries of these very objects, of which there are n.
func (x *Index) named(key Key, objects iter.Seq[metric.Object], n int, buffer *Buffer) []Found {
	out := slices.Grow(buffer.found[:0], n)
	shard, hash := x.ShardOfKey(key)
	shard.Mu.Lock()
	f, seen := shard.Family(hash, key), 0
	for o := range objects {
		if seen++; seen%EntriesPerHold == 0 {
			shard.Yield(seen)
			f = shard.Family(hash, key)
		}
		if f != nil {
			out = f.appendOneLocked(out, &o)
		}
	}
	shard.Mu.Unlock()
	buffer.found = out
	return buffer.sort()
}

func (f *Family) appendOneLocked(out []Found, o *metric.Object) []Found {
	for e := f.named(o.Name); e != nil; e = e.Older {
		if e.UID == o.UID {
			return append(out, Found{e, e.Series})
		}
	}
	return out
}

// size is how many entries a query of a family may find: for all objects as many as it has names,
// and where there is no object, how many series.
func (x *Index) size(key Key, object string) int {
	shard, hash := x.ShardOfKey(key)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	f := shard.Family(hash, key)
	switch {
	case f == nil:
		return 0
	case object == "*":
		return f.Entries.live
	}
	if e := f.named(object); e != nil && key.Resource == "" {
		return len(e.Series)
	}
	return 1
}

// Any returns an entry of a family, of one object or of whichever ("*"); nil: there is none.
func (x *Index) Any(key Key, object string) *Entry {
	shard, hash := x.ShardOfKey(key)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	f := shard.Family(hash, key)
	switch {
	case f == nil:
		return nil
	case object != "*":
		return f.named(object)
	}
	for e := range f.Entries.All() {
		return e
	}
	return nil
}

// sort returns what was found in the order of the objects' names. Comparing strings of a crowd is
// mostly waiting for memory, and names of one workload differ behind what they share: so by the
// sixteen bytes behind that first.
func (r *Buffer) sort() []Found {
	all := r.found
	if len(all) < 2 {
		return all
	}
	shared := all[0].Entry.Name
	for i := range all {
		shared = shared[:sharedPrefix(shared, all[i].Entry.Name)]
	}
	r.order = slices.Grow(r.order[:0], len(all))
	for i := range all {
		r.order = append(r.order, newOrderKey(all[i].Entry.Name[len(shared):], i))
	}
	slices.SortFunc(r.order, func(a, b orderKey) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		if a.second != b.second {
			return cmp.Compare(a.second, b.second)
		}
		return strings.Compare(all[a.at].Entry.Name, all[b.at].Entry.Name)
	})
	r.sorted = slices.Grow(r.sorted[:0], len(all))
	for _, one := range r.order {
		r.sorted = append(r.sorted, all[one.at])
	}
	return r.sorted
}

// orderKey is the beginning of a name as numbers that compare as its bytes do.
type orderKey struct {
	first, second uint64
	at            int
}

func newOrderKey(name string, at int) orderKey {
	var raw [16]byte
	copy(raw[:], name)
	return orderKey{binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:]), at}
}

func sharedPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// All returns every entry of a shard.
func (s *Shard) All() (out []Found) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	seen := 0
	for f := range s.Each() {
		for e := range f.Entries.All() {
			out = appendFound(out, e, true)
			seen++
			s.Yield(seen)
		}
	}
	return out
}
