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

// Found is an entry and its series as of one moment under the shard's lock.
type Found struct {
	Entry  *Entry
	Series []lookup.Ref
}

// EntriesPerHold is the number of entries visited per hold of the shard's lock. It bounds the wait
// of a writer that creates a series; the reader yields the processor between two holds. An entry
// that is created or removed meanwhile may be in the answer or not. Every other entry is in it.
const EntriesPerHold = 512

// Buffer is scratch memory for the entries of one answer. Pools reuse buffers, so that frequent
// reads leave little garbage.
type Buffer struct {
	found, sorted []Found
	order         []orderKey
	unsure        []unsure
}

// smallBuffers pools buffers of up to mostSmall entries, largeBuffers the others. The garbage
// collector has to scan pooled buffers. The large ones have their own pool, so that small answers
// don't keep them alive: that pool is emptied soon after the last large answer.
var (
	smallBuffers = sync.Pool{New: func() any { return new(Buffer) }}
	largeBuffers = sync.Pool{New: func() any { return new(Buffer) }}
)

const mostSmall = 4096

// BufferFor returns a buffer from the pool for answers of n entries. Release returns it.
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

// Scope is the set of objects that a query selects: a short list, or one or all of a family.
type Scope struct {
	few iter.Seq[metric.Object] // nil: there is no list
	// MaxEntries is the largest number of entries to expect; of series, for an external metric.
	MaxEntries int
}

// ScopeOf returns the scope of a query. If the query's ListObjects lists no more objects than the
// family has, only those are looked up.
func (x *Index) ScopeOf(key Key, q *metric.Query) Scope {
	size := x.size(key, q.Object)
	if q.Object == "*" && q.ListObjects != nil {
		if few, n, ok := q.ListObjects(size); ok {
			return Scope{few, n}
		}
	}
	return Scope{MaxEntries: size}
}

// Find returns the entries in a query's scope, sorted by object name.
func (x *Index) Find(key Key, q *metric.Query, scope Scope, buffer *Buffer) []Found {
	if scope.few != nil {
		return x.named(key, scope.few, scope.MaxEntries, buffer)
	}
	return x.FindObject(key, q.Object, metric.ObjectFilter{Match: q.MatchObject, Removed: q.RemovedObjects}, buffer)
}

// FindObject returns the entries of a family that pick selects, of one object name or of all ("*").
// Without pick.Match, only the newest of the objects of one name is returned.
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
	return slices.DeleteFunc(out, func(found Found) bool { return !known(found.Entry.Object()) })
}

// appendAllLocked appends all entries and yields the lock every EntriesPerHold entries. No entry
// that exists all the time is missed.
func (f *Family) appendAllLocked(out []Found, elders bool) []Found {
	seen := 0
	for e := range f.Entries.All() {
		out = appendFound(out, e, elders)
		seen++
		f.Shard.Yield(seen)
	}
	return out
}

// Yield releases the lock for a moment whenever seen reaches a multiple of EntriesPerHold.
func (s *Shard) Yield(seen int) {
	if seen%EntriesPerHold == 0 {
		s.Mu.Unlock()
		runtime.Gosched()
		s.Mu.Lock()
	}
}

// appendFound appends an entry and, if all is set, those of older objects of the same name.
func appendFound(out []Found, e *Entry, all bool) []Found {
	for ; e != nil; e = e.Older {
		out = append(out, Found{e, e.Series})
		if !all {
			break
		}
	}
	return out
}

// named returns the entries of n objects, matched by name and UID.
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

// size estimates the entries that a query of a family finds: the number of names for all objects,
// the number of series for an external metric, otherwise 1.
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

// Any returns an entry of a family: the newest of one object name, or any entry for "*". It returns
// nil if there is none.
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

// sort returns the found entries sorted by object name. Comparing thousands of strings mostly waits
// for memory. Names of one workload share a prefix, so sort first compares the sixteen bytes after
// that prefix, which lie in the sorted array itself.
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
	for _, o := range r.order {
		r.sorted = append(r.sorted, all[o.at])
	}
	return r.sorted
}

// orderKey holds sixteen bytes of a name as big-endian numbers, which compare like the bytes.
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

// All returns every entry of a shard, including those of older objects of the same name.
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
