package aggregate

import (
	"slices"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// order is the entries of a large family in the order of names, elders with them, kept from one reading of all of them to the next: to
// sort 150,000 names takes as long as to read their values. The lock of the family's shard guards it.
type order struct {
	// sorted is never changed. What has left the family since is in it, without series, and counted in gone.
	sorted []*entry
	gone   int
	// fresh came since, in any order.
	fresh []*entry
	// taken has the places of those in sorted that a query took, of which it was known at the moment that they are taken still:
	// to ask about each of 150,000 pods takes longer than to read their values.
	taken  []uint64
	moment uint64
}

// orderedFrom is how many names a family has whose order is kept, and orderedFamilies the most families that have one: it takes
// eight bytes an entry.
const (
	orderedFrom     = 4096
	orderedFamilies = 8
)

// orders are the families whose order was kept last. Its lock is taken alone.
type orders struct {
	mu   sync.Mutex
	of   [orderedFamilies]familyKey
	next int
}

// enteredLocked and leftLocked note what a family's entries do. Where much has changed, to sort anew is the lesser work.
func (f *family) enteredLocked(e *entry) {
	f.changes++
	if o := f.order; o != nil {
		if o.fresh = append(o.fresh, e); len(o.fresh) > len(o.sorted)/8 {
			f.order = nil
		}
	}
}

func (f *family) leftLocked() {
	f.changes++
	if o := f.order; o != nil {
		if o.gone++; o.gone > len(o.sorted)/8 {
			f.order = nil
		}
	}
}

// keep keeps the order of a family's entries, unless they are others than when they were so many changes old.
func (x *index) keep(f *family, changes uint64, all []found) {
	kept := &order{sorted: make([]*entry, len(all)), taken: make([]uint64, len(all)/64+1)}
	for i := range all {
		kept.sorted[i] = all[i].entry
	}
	f.shard.mu.Lock()
	same := f.changes == changes
	if same {
		f.order = kept
	}
	f.shard.mu.Unlock()
	if same {
		x.forget(x.orders.enter(f.key))
	}
}

// enter notes that a family's order is kept, and returns the one whose order is to be forgotten for it.
func (o *orders) enter(key familyKey) (old familyKey, forget bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Contains(o.of[:], key) {
		return familyKey{}, false
	}
	old, o.of[o.next] = o.of[o.next], key
	o.next = (o.next + 1) % len(o.of)
	return old, true
}

func (x *index) forget(key familyKey, forget bool) {
	if !forget {
		return
	}
	shard, hash := x.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if f := shard.family(hash, key); f != nil {
		f.order = nil
	}
}

// unsure is an entry about which has to be asked: where it stands in what was found, and in the order; -1: it is fresh.
type unsure struct{ at, place int }

// ordered returns the entries in their order, those that are taken. Who was taken before, and did not go since, is not asked about.
func (f *family) ordered(o *order, pick metric.ObjectFilter, room *finding) []found {
	var now uint64
	if pick.Removed != nil {
		now = f.catchUp(o, pick.Removed)
	}
	f.shard.mu.Lock()
	f.takeOrderedLocked(o, pick.Removed != nil, room)
	f.shard.mu.Unlock()
	out, all := room.found, len(room.unsure)
	room.unsure = slices.DeleteFunc(room.unsure, func(u unsure) bool {
		if pick.Match(out[u.at].entry.object()) {
			return false
		}
		out[u.at].entry = nil
		return true
	})
	if pick.Removed != nil {
		f.noteTaken(o, now, room.unsure)
	}
	if len(room.unsure) == all {
		return out
	}
	return slices.DeleteFunc(out, func(one found) bool { return one.entry == nil })
}

// catchUp forgets who was taken and went since, and returns the moment at which that was so.
func (f *family) catchUp(o *order, gone func(uint64) ([]metric.Object, uint64, bool)) (now uint64) {
	f.shard.mu.Lock()
	since := o.moment
	f.shard.mu.Unlock()
	went, now, ok := gone(since)
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	if !ok {
		clear(o.taken)
	}
	for i := range went {
		if went[i].Resource == f.key.resource && went[i].Namespace == f.key.namespace {
			o.forgetLocked(&went[i])
		}
	}
	o.moment = max(o.moment, now) // another reading may have come further
	return now
}

func (o *order) forgetLocked(gone *metric.Object) {
	place, _ := slices.BinarySearchFunc(o.sorted, gone.Name, func(e *entry, name string) int { return strings.Compare(e.name, name) })
	for ; place < len(o.sorted) && o.sorted[place].name == gone.Name; place++ {
		if o.sorted[place].uid == gone.UID {
			o.taken[place/64] &^= 1 << (place % 64)
		}
	}
}

// noteTaken notes who was taken when it was asked about, after the moment now. Where more is known of later moments, that may have
// spoken of them, and who is not noted is asked about again.
func (f *family) noteTaken(o *order, now uint64, taken []unsure) {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	for i, u := range taken {
		if f.shard.letOthersIn(i + 1); o.moment != now {
			return
		}
		if u.place >= 0 {
			o.taken[u.place/64] |= 1 << (u.place % 64)
		}
	}
}

// takeOrderedLocked takes all entries in their order, and lets others have the lock now and then. What comes meanwhile is not
// in it.
func (f *family) takeOrderedLocked(o *order, noted bool, room *finding) {
	sorted, fresh := o.sorted, slices.Clone(o.fresh)
	out, doubts := slices.Grow(room.found[:0], len(sorted)+len(fresh)), room.unsure[:0]
	slices.SortFunc(fresh, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	take := func(e *entry, place int) {
		if len(e.series) == 0 {
			return // it has left its family: one in it always has series
		}
		if !noted || place < 0 || o.taken[place/64]&(1<<(place%64)) == 0 {
			doubts = append(doubts, unsure{len(out), place})
		}
		out = append(out, found{e, e.series})
	}
	for i, e := range sorted {
		for len(fresh) > 0 && fresh[0].name < e.name {
			take(fresh[0], -1)
			fresh = fresh[1:]
		}
		take(e, i)
		f.shard.letOthersIn(i + 1)
	}
	for _, e := range fresh {
		take(e, -1)
	}
	room.found, room.unsure = out, doubts
}
