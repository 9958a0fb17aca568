package aggregate

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// found is an entry as a reader took it.
type found struct {
	entry  *entry
	series []ref
}

// perHold is how many entries are looked at while the shard's lock is held once: a writer that creates a series waits for
// no more. What comes or goes between two pieces of one answer may be in it or not; what was there all the time is.
const perHold = 512

// asked returns the entries that a query is about. Where those who pick objects can list fewer than the family has, these
// are looked up and no other is touched.
func (x *index) asked(key familyKey, q *metric.Query) []found {
	if q.Object == "*" && q.Few != nil {
		size := x.size(key)
		if few, ok := q.Few(size); ok {
			return x.named(key, few)
		}
	}
	return x.find(key, q.Object, q.Known)
}

// find returns the entries of a family: of one object, or of all ("*"), those that known takes, in the order of names. Where
// nobody tells objects of one name apart, the newest stands for all.
func (x *index) find(key familyKey, object string, known func(metric.Object) bool) []found {
	shard, hash := x.shard(key)
	shard.mu.Lock()
	f := shard.family(hash, key)
	if f == nil {
		shard.mu.Unlock()
		return nil
	}
	var out []found
	if object != "*" {
		out = appendFound(out, f.entries[object], known != nil)
	} else {
		out = f.allLocked(known != nil)
	}
	shard.mu.Unlock()
	if known != nil {
		out = slices.DeleteFunc(out, func(one found) bool { return !known(one.entry.object()) })
	}
	sortByName(out)
	return out
}

// allLocked takes all entries, and lets others have the lock now and then. A map may change between two steps of going over
// it: nothing that stays is passed over.
func (f *family) allLocked(elders bool) []found {
	out := make([]found, 0, len(f.entries))
	seen := 0
	for _, e := range f.entries {
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

// named returns the entries of these very objects, in the order of names.
func (x *index) named(key familyKey, objects []metric.Object) []found {
	out := make([]found, 0, len(objects))
	for some := range slices.Chunk(objects, perHold) {
		out = x.appendNamed(out, key, some)
	}
	sortByName(out)
	return out
}

func (x *index) appendNamed(out []found, key familyKey, objects []metric.Object) []found {
	shard, hash := x.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	f := shard.family(hash, key)
	if f == nil {
		return out
	}
	for i := range objects {
		for e := f.entries[objects[i].Name]; e != nil; e = e.older {
			if e.uid == objects[i].UID {
				out = append(out, found{e, e.series})
				break
			}
		}
	}
	return out
}

// size is how many names of objects a family has.
func (x *index) size(key familyKey) int {
	shard, hash := x.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if f := shard.family(hash, key); f != nil {
		return len(f.entries)
	}
	return 0
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
		return f.entries[object]
	}
	for _, e := range f.entries {
		return e
	}
	return nil
}

// sortByName sorts by the objects' names. Comparing strings of a crowd is mostly waiting for memory, and names of one
// workload differ behind what they share: so by the sixteen bytes behind that first.
func sortByName(all []found) {
	if len(all) < 2 {
		return
	}
	shared := all[0].entry.name
	for i := range all {
		shared = shared[:sharedPrefix(shared, all[i].entry.name)]
	}
	order := make([]orderKey, len(all))
	for i := range all {
		order[i] = newOrderKey(all[i].entry.name[len(shared):], i)
	}
	slices.SortFunc(order, func(a, b orderKey) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		if a.second != b.second {
			return cmp.Compare(a.second, b.second)
		}
		return strings.Compare(all[a.at].entry.name, all[b.at].entry.name)
	})
	unordered := slices.Clone(all)
	for i, one := range order {
		all[i] = unordered[one.at]
	}
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
