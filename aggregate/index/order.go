package index

import (
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// Order caches the entries of a large family, sorted by name, between two reads of all of them:
// sorting 150,000 names takes as long as reading their values. It includes older objects of the
// same name. The lock of the family's shard guards it.
type Order struct {
	// Sorted never changes. Entries that were removed since stay in it, without series; Gone counts
	// them.
	Sorted []*Entry
	Gone   int
	// Fresh are the entries that were added since, unsorted.
	Fresh []*Entry
	// known is a bitmap over Sorted: entries that Match selected, and that were still selected at
	// moment. Asking Match about each of 150,000 pods takes longer than reading their values.
	// moment is as ObjectFilter.Removed counts it.
	known  []uint64
	moment uint64
}

// OrderedFrom is the number of names from which a family's order is kept. OrderedFamilies bounds
// the number of kept orders: each takes eight bytes an entry.
const (
	OrderedFrom     = 4096
	OrderedFamilies = 8
)

// orders is the ring of the families whose order was kept last. Its lock is never held together
// with another lock.
type orders struct {
	mu   sync.Mutex
	of   [OrderedFamilies]Key
	next int
}

// enteredLocked and leftLocked keep the order up to date when an entry is added or removed. They
// drop the order after many changes: sorting anew is cheaper then.
func (f *Family) enteredLocked(e *Entry) {
	f.Changes++
	if o := f.Order; o != nil {
		if o.Fresh = append(o.Fresh, e); len(o.Fresh) > len(o.Sorted)/8 {
			f.Order = nil
		}
	}
}

func (f *Family) leftLocked() {
	f.Changes++
	if o := f.Order; o != nil {
		if o.Gone++; o.Gone > len(o.Sorted)/8 {
			f.Order = nil
		}
	}
}

// Keep stores the order of a family's entries. It does nothing if the family has changed since its
// count of changes was read.
func (x *Index) Keep(f *Family, changes uint64, all []Found) {
	kept := &Order{Sorted: make([]*Entry, len(all)), known: make([]uint64, len(all)/64+1)}
	for i := range all {
		kept.Sorted[i] = all[i].Entry
	}
	f.Shard.Mu.Lock()
	same := f.Changes == changes
	if same {
		f.Order = kept
	}
	f.Shard.Mu.Unlock()
	if same {
		x.forget(x.orders.enter(f.Key))
	}
}

// enter adds a family to the ring, and returns the family that it replaces, whose order the caller
// drops. forget is false if the family is in the ring already.
func (o *orders) enter(key Key) (old Key, forget bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Contains(o.of[:], key) {
		return Key{}, false
	}
	old, o.of[o.next] = o.of[o.next], key
	o.next = (o.next + 1) % len(o.of)
	return old, true
}

func (x *Index) forget(key Key, forget bool) {
	if !forget {
		return
	}
	shard, hash := x.ShardOfKey(key)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	if f := shard.Family(hash, key); f != nil {
		f.Order = nil
	}
}

// unsure is an entry for which Match has to be called: its index in Buffer.found, and its place in
// Order.Sorted, or -1 if it is fresh.
type unsure struct{ at, place int }

// ordered returns the selected entries in the kept order. If pick.Removed is set, Match is not
// called for entries that were selected before and that Removed has not listed since.
func (f *Family) ordered(o *Order, pick metric.ObjectFilter, buffer *Buffer) []Found {
	var now uint64
	if pick.Removed != nil {
		now = f.catchUp(o, pick.Removed)
	}
	f.Shard.Mu.Lock()
	f.takeOrderedLocked(o, pick.Removed != nil, buffer)
	f.Shard.Mu.Unlock()
	out, all := buffer.found, len(buffer.unsure)
	buffer.unsure = slices.DeleteFunc(buffer.unsure, func(u unsure) bool {
		if pick.Match(out[u.at].Entry.Object()) {
			return false
		}
		out[u.at].Entry = nil
		return true
	})
	if pick.Removed != nil {
		f.noteTaken(o, now, buffer.unsure)
	}
	if len(buffer.unsure) == all {
		return out
	}
	return slices.DeleteFunc(out, func(found Found) bool { return found.Entry == nil })
}

// catchUp clears the known bits of objects that are no longer selected, and returns the moment up
// to which known is then correct.
func (f *Family) catchUp(o *Order, gone func(uint64) ([]metric.Object, uint64, bool)) (now uint64) {
	f.Shard.Mu.Lock()
	since := o.moment
	f.Shard.Mu.Unlock()
	went, now, ok := gone(since)
	f.Shard.Mu.Lock()
	defer f.Shard.Mu.Unlock()
	if !ok {
		clear(o.known)
	}
	for i := range went {
		if went[i].Resource == f.Key.Resource && went[i].Namespace == f.Key.Namespace {
			o.forgetLocked(&went[i])
		}
	}
	o.moment = max(o.moment, now) // a concurrent read may have advanced it further
	return now
}

func (o *Order) forgetLocked(gone *metric.Object) {
	place, _ := slices.BinarySearchFunc(o.Sorted, gone.Name,
		func(e *Entry, name string) int { return strings.Compare(e.Name, name) })
	for ; place < len(o.Sorted) && o.Sorted[place].Name == gone.Name; place++ {
		if o.Sorted[place].UID == gone.UID {
			o.known[place/64] &^= 1 << (place % 64)
		}
	}
}

// noteTaken marks the entries as known that Match selected after the moment now. It stops if a
// concurrent read has advanced Order.moment: the removals up to there may include these entries.
// Unmarked entries are only asked about again.
func (f *Family) noteTaken(o *Order, now uint64, taken []unsure) {
	f.Shard.Mu.Lock()
	defer f.Shard.Mu.Unlock()
	for i, u := range taken {
		if f.Shard.Yield(i + 1); o.moment != now {
			return
		}
		if u.place >= 0 {
			o.known[u.place/64] |= 1 << (u.place % 64)
		}
	}
}

// takeOrderedLocked fills the buffer with all entries in order, and yields the lock every
// EntriesPerHold entries. Entries added meanwhile are not included.
func (f *Family) takeOrderedLocked(o *Order, noted bool, buffer *Buffer) {
	sorted, fresh := o.Sorted, slices.Clone(o.Fresh)
	out, doubts := slices.Grow(buffer.found[:0], len(sorted)+len(fresh)), buffer.unsure[:0]
	slices.SortFunc(fresh, func(a, b *Entry) int { return strings.Compare(a.Name, b.Name) })
	take := func(e *Entry, place int) {
		if len(e.Series) == 0 {
			return // removed: an entry of a family always has series
		}
		if !noted || place < 0 || o.known[place/64]&(1<<(place%64)) == 0 {
			doubts = append(doubts, unsure{len(out), place})
		}
		out = append(out, Found{e, e.Series})
	}
	for i, e := range sorted {
		for len(fresh) > 0 && fresh[0].Name < e.Name {
			take(fresh[0], -1)
			fresh = fresh[1:]
		}
		take(e, i)
		f.Shard.Yield(i + 1)
	}
	for _, e := range fresh {
		take(e, -1)
	}
	buffer.found, buffer.unsure = out, doubts
}
