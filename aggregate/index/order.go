package index

import (
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// Order is the entries of a large family in the order of names, elders with them, kept from one
// reading of all of them to the next: to sort 150,000 names takes as long as to read their values.
// The lock of the family's shard guards it.
type Order struct {
	// Sorted is never changed. What has left the family since is in it, without series, and counted
	// in gone.
	Sorted []*Entry
	Gone   int
	// Fresh came since, in any order.
	Fresh []*Entry
	// known has the places of those in sorted that a query took, of which it was known at the
	// moment that they are taken still: to ask about each of 150,000 pods takes longer than to read
	// their values.
	known  []uint64
	moment uint64
}

// orderedFrom is how many names a family has whose order is kept, and orderedFamilies the most
// families that have one: it takes eight bytes an entry.
const (
	OrderedFrom     = 4096
	OrderedFamilies = 8
)

// orders are the families whose order was kept last. Its lock is taken alone.
type orders struct {
	mu   sync.Mutex
	of   [OrderedFamilies]Key
	next int
}

// enteredLocked and leftLocked note what a family's entries do. Where much has changed, to sort
// anew is the lesser work.
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

// Keep keeps the order of a family's entries, unless they are others than when they were so many
// changes old.
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

// enter notes that a family's order is kept, and returns the one whose order is to be forgotten for
// it.
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

// unsure is an entry about which has to be asked: where it stands in what was found, and in the
// order; -1: it is fresh.
type unsure struct{ at, place int }

// ordered returns the entries in their order, those that are taken. Who was taken before, and did
// not go since, is not asked about.
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
	return slices.DeleteFunc(out, func(one Found) bool { return one.Entry == nil })
}

// catchUp forgets who was taken and went since, and returns the moment at which that was so.
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
	o.moment = max(o.moment, now) // another reading may have come further
	return now
}

func (o *Order) forgetLocked(gone *metric.Object) {
	place, _ := slices.BinarySearchFunc(o.Sorted, gone.Name, func(e *Entry, name string) int { return strings.Compare(e.Name, name) })
	for ; place < len(o.Sorted) && o.Sorted[place].Name == gone.Name; place++ {
		if o.Sorted[place].UID == gone.UID {
			o.known[place/64] &^= 1 << (place % 64)
		}
	}
}

// noteTaken notes who was taken when it was asked about, after the moment now. Where more is known
// of later moments, that may have spoken of them, and who is not noted is asked about again.
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

// takeOrderedLocked takes all entries in their order, and lets others have the lock now and then.
// What comes meanwhile is not in it.
func (f *Family) takeOrderedLocked(o *Order, noted bool, buffer *Buffer) {
	sorted, fresh := o.Sorted, slices.Clone(o.Fresh)
	out, doubts := slices.Grow(buffer.found[:0], len(sorted)+len(fresh)), buffer.unsure[:0]
	slices.SortFunc(fresh, func(a, b *Entry) int { return strings.Compare(a.Name, b.Name) })
	take := func(e *Entry, place int) {
		if len(e.Series) == 0 {
			return // it has left its family: one in it always has series
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
