package index

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// Index finds series by resource, namespace and metric name, then by object, as readers ask for
// them. See the package comment for the locking rules.
type Index struct {
	Hash   lookup.Hash
	Shards [64]Shard
	List   listing
	orders orders
	// births count the series that were added to any family.
	births atomic.Uint32
}

type Shard struct {
	hash     *lookup.Hash
	Mu       sync.Mutex
	Families map[uint64]*Family // by the hash of the key; families of equal hash are linked by next
	object   metric.Object      // scratch space for the result of ObjectOf
	sets     [64]string         // cache of packed labels, by their hash; see Shared
	// births count the series that were added, by the hash of their family; see Births.
	births [64]atomic.Uint32
	total  *atomic.Uint32 // the index's births
}

type Key struct{ Resource, Namespace, Name string }

// Family is one metric of all objects of a resource in a namespace.
type Family struct {
	Key     Key
	hash    uint64
	next    *Family    // of the same hash
	Shard   *Shard     // the shard's lock guards the fields below
	Entries nameTable  // the newest entry of each object name; an external metric has one, named ""
	Order   *Order     // nil: not kept
	Changes uint64     // the number of entries added and removed so far
	kinds   KindCounts // entries by kind, including older objects of the same name
}

func (k Key) sum(h *lookup.Hash) uint64 {
	return h.String(h.String(h.String(h.C, k.Resource), k.Namespace), k.Name)
}

// Entry is one metric of one object. All its series have the same kind; readers roll them up.
type Entry struct {
	Family    *Family
	Name, UID string // of the object
	// Older is the same metric of an earlier object of this name with another UID. Guarded by the
	// shard's lock.
	Older *Entry
	// Series is guarded by the shard's lock. It is only appended to or replaced by a copy, so a
	// slice that a reader took earlier never changes.
	Series []lookup.Ref
	dead   int32 // removed series that are still in Series
	Kind   metric.Kind
}

// Object returns the entry's object. The strings are not borrowed.
func (e *Entry) Object() metric.Object {
	return metric.Object{Resource: e.Family.Key.Resource, Namespace: e.Family.Key.Namespace, Name: e.Name, UID: e.UID}
}

// External reports whether the metric belongs to no object.
func (e *Entry) External() bool { return e.Family.Key.Resource == "" }

func New() *Index {
	x := &Index{Hash: lookup.NewHash()}
	for i := range x.Shards {
		x.Shards[i].hash, x.Shards[i].Families, x.Shards[i].total = &x.Hash, map[uint64]*Family{}, &x.births
	}
	return x
}

// hashOf is the hash of an object's name in the family.
func (f *Family) hashOf(name string) uint64 { return f.Shard.hash.String(f.hash, name) }

// named returns the newest entry of an object name, or nil.
func (f *Family) named(name string) *Entry { return f.Entries.find(f.hashOf(name), name) }

// ShardOfKey returns the shard of a key's family, and the hash of the key.
func (x *Index) ShardOfKey(k Key) (*Shard, uint64) {
	hash := k.sum(&x.Hash)
	return &x.Shards[hash%uint64(len(x.Shards))], hash
}

// Births counts the series that were added to a family. Several families may share a count.
func (x *Index) Births(k Key) *atomic.Uint32 {
	shard, hash := x.ShardOfKey(k)
	return shard.birthsOf(hash)
}

// AllBirths counts the series that were added to any family: after its Births.
func (x *Index) AllBirths() uint32 { return x.births.Load() }

func (s *Shard) birthsOf(hash uint64) *atomic.Uint32 {
	return &s.births[hash>>16%uint64(len(s.births))]
}

// Family finds a family by its key and the key's hash. It returns nil if there is none.
func (s *Shard) Family(hash uint64, k Key) *Family {
	for f := s.Families[hash]; f != nil; f = f.next {
		if f.Key == k {
			return f
		}
	}
	return nil
}

// Each yields the families. The caller holds the shard's lock and may release it for a moment
// inside the loop. Families that stay are yielded once. A family that is added or removed meanwhile
// may be yielded; one that is removed and added again may be yielded twice.
func (s *Shard) Each() iter.Seq[*Family] {
	return func(yield func(*Family) bool) {
		for _, first := range s.Families {
			for f := first; f != nil; f = f.next {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// ObjectOf returns an entry's object without an allocation. The pointer is valid until the next
// call; the caller holds the shard's lock.
func (s *Shard) ObjectOf(e *Entry) *metric.Object {
	s.object = e.Object()
	return &s.object
}

// mostShared is the length in bytes up to which Shared looks for equal labels.
const mostShared = 128

// Shared returns a copy of packed labels that outlives the borrowed input. Series of one workload's
// pods mostly have equal labels, so a small cache of the latest label sets lets them share a copy.
func (s *Shard) Shared(h *lookup.Hash, packed string) string {
	if len(packed) > mostShared {
		return strings.Clone(packed)
	}
	last := &s.sets[h.String(h.C, packed)%uint64(len(s.sets))]
	if *last != packed {
		*last = strings.Clone(packed)
	}
	return *last
}

// ShardOf returns the shard of an identity's family.
func (x *Index) ShardOf(form *Identity) *Shard {
	return &x.Shards[form.FamilySum%uint64(len(x.Shards))]
}

// Enter returns the entry of an identity, and creates it with the given kind if there is none. The
// returned shard is locked: the caller checks the kind, adds its series, and unlocks.
func (x *Index) Enter(form *Identity, kind metric.Kind) (*Entry, *Shard) {
	key := form.Key()
	shard := x.ShardOf(form)
	shard.Mu.Lock()
	f := shard.Family(form.FamilySum, key)
	if f == nil {
		f = shard.addLocked(form.FamilySum, key)
	}
	newest := f.Entries.find(form.NamedSum, form.Object.Name)
	for e := newest; e != nil; e = e.Older {
		if e.UID == form.Object.UID {
			return e, shard
		}
	}
	e := &Entry{Family: f, Name: form.Object.Name, UID: form.Object.UID, Kind: kind, Older: newest}
	if !form.Lasting {
		e.Name, e.UID = strings.Clone(e.Name), strings.Clone(e.UID)
	}
	f.Entries.put(form.NamedSum, e)
	f.kinds[kind]++
	f.enteredLocked(e)
	return e, shard
}

func (s *Shard) addLocked(hash uint64, k Key) *Family {
	k = Key{strings.Clone(k.Resource), strings.Clone(k.Namespace), strings.Clone(k.Name)}
	f := &Family{Key: k, hash: hash, next: s.Families[hash], Shard: s}
	s.Families[hash] = f
	return f
}

func (s *Shard) removeLocked(gone *Family) {
	first := s.Families[gone.hash]
	switch {
	case first == gone && gone.next == nil:
		delete(s.Families, gone.hash)
	case first == gone:
		s.Families[gone.hash] = gone.next
	default:
		for f := first; f != nil; f = f.next {
			if f.next == gone {
				f.next = gone.next
				return
			}
		}
	}
}

func (e *Entry) AddLocked(r lookup.Ref) {
	e.Series = append(e.Series, r)
	e.Family.Shard.birthsOf(e.Family.hash).Add(1)
	e.Family.Shard.total.Add(1)
}

// RemoveLocked counts n more series of the entry as dead. Dead series stay in the list, where
// readers skip them, until they are half of it. So removing a large entry's series one by one costs
// time linear in their number. An empty entry is removed, and so is an empty family.
func (e *Entry) RemoveLocked(n int, isLive func(lookup.Ref) bool) {
	e.dead += int32(n)
	if 2*int(e.dead) >= len(e.Series) {
		e.Series = slices.DeleteFunc(slices.Clone(e.Series), func(r lookup.Ref) bool { return !isLive(r) })
		e.dead = 0
	}
	e.TidyLocked()
}

// TidyLocked removes the entry if it has no series, and then the family if it has no entry.
func (e *Entry) TidyLocked() {
	if len(e.Series) > 0 {
		return
	}
	f := e.Family
	f.removeLocked(e)
	if f.Entries.live == 0 {
		f.Shard.removeLocked(f)
	}
}

func (f *Family) removeLocked(e *Entry) {
	f.kinds[e.Kind]--
	f.leftLocked()
	hash := f.hashOf(e.Name)
	newest := f.Entries.find(hash, e.Name)
	switch {
	case newest != e:
		for at := newest; at != nil; at = at.Older {
			if at.Older == e {
				at.Older = e.Older
				return
			}
		}
	case e.Older != nil:
		f.Entries.put(hash, e.Older)
	default:
		f.Entries.remove(hash, e.Name)
	}
}

// KindCounts counts something by kind.
type KindCounts [metric.Set + 1]int

// Mixed reports whether a family's entries have different kinds, which is rare.
func (x *Index) Mixed(key Key) bool {
	shard, hash := x.ShardOfKey(key)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	f, kinds := shard.Family(hash, key), 0
	if f == nil {
		return false
	}
	for _, n := range f.kinds {
		kinds += min(n, 1)
	}
	return kinds > 1
}

// Ends returns the addresses of an entry's first and last byte, for prefetching: an entry can span
// two cache lines.
func (e *Entry) Ends() (first, last uintptr) {
	first = uintptr(unsafe.Pointer(e))
	return first, first + unsafe.Sizeof(*e) - 1
}

// Identity is the identity of a series. All spellings of a series have the same identity. The
// strings may be borrowed.
type Identity struct {
	Object    metric.Object
	Name      string
	Labels    string // packed
	Sum       uint64
	FamilySum uint64 // the hash of resource, namespace and name
	NamedSum  uint64 // the hash of resource, namespace, name and the object's name
	// The fields below are not part of the identity. Bound: the series lives as long as its object.
	// Lasting: the object's strings are not borrowed.
	Bound, Lasting bool
}

// Hash sets the hashes.
func (f *Identity) Hash(h *lookup.Hash) {
	f.FamilySum = f.Key().sum(h)
	f.NamedSum = h.String(f.FamilySum, f.Object.Name)
	f.Sum = h.String(h.String(f.NamedSum, f.Object.UID), f.Labels)
}

func (f *Identity) Key() Key {
	return Key{f.Object.Resource, f.Object.Namespace, f.Name}
}

// Matches reports whether the series of entry e with these packed labels has the identity.
func (f *Identity) Matches(e *Entry, labels string) bool {
	return e.Name == f.Object.Name && e.UID == f.Object.UID && e.Family.Key == f.Key() && labels == f.Labels
}
