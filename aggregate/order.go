package aggregate

import (
	"slices"
	"strings"
	"sync"
)

// order is the entries of a large family in the order of names, elders with them, kept from one reading of all of them to the next: to
// sort 150,000 names takes as long as to read their values. The lock of the family's shard guards it.
type order struct {
	// sorted is never changed. What has left the family since is in it, without series, and counted in gone.
	sorted []*entry
	gone   int
	// fresh came since, in any order.
	fresh []*entry
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
	kept := &order{sorted: make([]*entry, len(all))}
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

// appendOrderedLocked takes all entries in their order, and lets others have the lock now and then. What comes meanwhile is not
// in it.
func (f *family) appendOrderedLocked(out []found) []found {
	sorted, fresh := f.order.sorted, slices.Clone(f.order.fresh)
	out = slices.Grow(out, len(sorted)+len(fresh))
	slices.SortFunc(fresh, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	for i, e := range sorted {
		for len(fresh) > 0 && fresh[0].name < e.name {
			out = appendLiving(out, fresh[0])
			fresh = fresh[1:]
		}
		out = appendLiving(out, e)
		f.shard.letOthersIn(i + 1)
	}
	for _, e := range fresh {
		out = appendLiving(out, e)
	}
	return out
}

// appendLiving appends an entry unless it has left its family: one in it always has series.
func appendLiving(out []found, e *entry) []found {
	if len(e.series) > 0 {
		out = append(out, found{e, e.series})
	}
	return out
}
