package aggregate

import (
	"cmp"
	"encoding/binary"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// found is an entry as a reader took it.
type found struct {
	entry  *entry
	series []ref
}

// perHold is how many entries are looked at while the shard's lock is held once: a writer that creates a series waits for
// no more, and whoever waits for the processor gets it in between. What comes or goes between two pieces of one answer may be in it
// or not; what was there all the time is.
const perHold = 512

// finding is room for the entries of one answer. An answer that is read again and again finds it in findings, so that a read makes
// little work for the collector.
type finding struct {
	found, sorted []found
	order         []orderKey
	unsure        []unsure
}

// findings is room for answers of up to mostFew entries, crowds for larger ones, which is gone soon where nobody asks for
// such: the collector has to look through it.
var (
	findings = sync.Pool{New: func() any { return new(finding) }}
	crowds   = sync.Pool{New: func() any { return new(finding) }}
)

const mostFew = 4096

// findingFor is room for so many entries.
func findingFor(n int) *finding {
	if n > mostFew {
		return crowds.Get().(*finding)
	}
	return findings.Get().(*finding)
}

func (r *finding) release() {
	if cap(r.found) > mostFew {
		crowds.Put(r)
		return
	}
	findings.Put(r)
}

// sought is whom a query is about: a few objects that were listed, or one or all of a family.
type sought struct {
	few  iter.Seq[metric.Object] // nil: they were not listed
	most int                     // how many entries there may be, or series where there is no object
}

// seek says whom a query is about. Where those who pick objects can list fewer than the family has, these are looked up and no
// other is touched.
func (x *index) seek(key familyKey, q *metric.Query) sought {
	size := x.size(key, q.Object)
	if q.Object == "*" && q.ListObjects != nil {
		if few, n, ok := q.ListObjects(size); ok {
			return sought{few, n}
		}
	}
	return sought{most: size}
}

// asked returns the entries that a query is about, in the order of names.
func (x *index) asked(key familyKey, q *metric.Query, who sought, room *finding) []found {
	if who.few != nil {
		return x.named(key, who.few, who.most, room)
	}
	return x.find(key, q.Object, metric.ObjectFilter{Match: q.MatchObject, Removed: q.RemovedObjects}, room)
}

// find returns the entries of a family: of one object, or of all ("*"), those that are taken. Where nobody tells objects of one
// name apart, the newest stands for all.
func (x *index) find(key familyKey, object string, pick metric.ObjectFilter, room *finding) []found {
	known := pick.Match
	shard, hash := x.shard(key)
	shard.mu.Lock()
	f := shard.family(hash, key)
	if f == nil {
		shard.mu.Unlock()
		return nil
	}
	changes, size, kept := f.changes, f.entries.live, f.order
	switch {
	case object != "*":
		room.found = appendFound(room.found[:0], f.named(object), known != nil)
	case known != nil && kept != nil:
		shard.mu.Unlock()
		return f.ordered(kept, pick, room)
	default:
		room.found = f.appendAllLocked(slices.Grow(room.found[:0], size), known != nil)
	}
	shard.mu.Unlock()
	out := room.sort()
	if known == nil {
		return out
	}
	if object == "*" && size >= orderedFrom {
		x.keep(f, changes, out)
	}
	return slices.DeleteFunc(out, func(one found) bool { return !known(one.entry.object()) })
}

// appendAllLocked takes all entries, and lets others have the lock now and then: nothing that stays is passed over.
func (f *family) appendAllLocked(out []found, elders bool) []found {
	seen := 0
	for e := range f.entries.all() {
		out = appendFound(out, e, elders)
		seen++
		f.shard.letOthersIn(seen)
	}
	return out
}

// letOthersIn lets go of the lock for a moment if so many entries have been looked at.
func (s *indexShard) letOthersIn(seen int) {
	if seen%perHold == 0 {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
}

// appendFound appends an entry, and all its elders if they are told apart.
func appendFound(out []found, e *entry, all bool) []found {
	for ; e != nil; e = e.older {
		out = append(out, found{e, e.series})
		if !all {
			break
		}
	}
	return out
}

// named returns the entries of these very objects, of which there are n.
func (x *index) named(key familyKey, objects iter.Seq[metric.Object], n int, room *finding) []found {
	out := slices.Grow(room.found[:0], n)
	shard, hash := x.shard(key)
	shard.mu.Lock()
	f, seen := shard.family(hash, key), 0
	for o := range objects {
		if seen++; seen%perHold == 0 {
			shard.letOthersIn(seen)
			f = shard.family(hash, key)
		}
		if f != nil {
			out = f.appendOneLocked(out, &o)
		}
	}
	shard.mu.Unlock()
	room.found = out
	return room.sort()
}

func (f *family) appendOneLocked(out []found, o *metric.Object) []found {
	for e := f.named(o.Name); e != nil; e = e.older {
		if e.uid == o.UID {
			return append(out, found{e, e.series})
		}
	}
	return out
}

// size is how many entries a query of a family may find: for all objects as many as it has names, and where there is no object,
// how many series.
func (x *index) size(key familyKey, object string) int {
	shard, hash := x.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	f := shard.family(hash, key)
	switch {
	case f == nil:
		return 0
	case object == "*":
		return f.entries.live
	}
	if e := f.named(object); e != nil && key.resource == "" {
		return len(e.series)
	}
	return 1
}

// any returns an entry of a family, of one object or of whichever ("*"); nil: there is none.
func (x *index) any(key familyKey, object string) *entry {
	shard, hash := x.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	f := shard.family(hash, key)
	switch {
	case f == nil:
		return nil
	case object != "*":
		return f.named(object)
	}
	for e := range f.entries.all() {
		return e
	}
	return nil
}

// sort returns what was found in the order of the objects' names. Comparing strings of a crowd is mostly waiting for memory, and
// names of one workload differ behind what they share: so by the sixteen bytes behind that first.
func (r *finding) sort() []found {
	all := r.found
	if len(all) < 2 {
		return all
	}
	shared := all[0].entry.name
	for i := range all {
		shared = shared[:sharedPrefix(shared, all[i].entry.name)]
	}
	r.order = slices.Grow(r.order[:0], len(all))
	for i := range all {
		r.order = append(r.order, newOrderKey(all[i].entry.name[len(shared):], i))
	}
	slices.SortFunc(r.order, func(a, b orderKey) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		if a.second != b.second {
			return cmp.Compare(a.second, b.second)
		}
		return strings.Compare(all[a.at].entry.name, all[b.at].entry.name)
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
