package index

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// Index finds series the way readers ask for them: by resource, namespace and metric name, then by
// object. Writers touch it only to create a series. Its locks are held for a map's work or a piece
// of a family's copy, never while a value is read.
type Index struct {
	Hash   lookup.Hash
	Shards [64]Shard
	List   listing
	orders orders
}

type Shard struct {
	hash     *lookup.Hash
	Mu       sync.Mutex
	Families map[uint64]*Family // by the hash of their key; those of one hash follow one another
	object   metric.Object      // that of the entry in hand, here for who is handed it
	sets     [64]string         // labels, packed, that were handed out last
}

type Key struct{ Resource, Namespace, Name string }

// Family is one metric of all objects of a resource in a namespace.
type Family struct {
	Key     Key
	hash    uint64
	next    *Family    // of the same hash
	Shard   *Shard     // its lock guards all below
	Entries nameTable  // by the object's name, the newest first; externals have one, named ""
	Order   *Order     // nil: not kept
	Changes uint64     // how many entries came and went
	kinds   KindCounts // of the entries, elders among them
}

func (k Key) sum(h *lookup.Hash) uint64 {
	return h.String(h.String(h.String(h.C, k.Resource), k.Namespace), k.Name)
}

// Entry is one metric of one object: its label sets are rolled up, and all of one kind.
type Entry struct {
	Family    *Family
	Name, UID string // of the object
	// Older is the metric of an earlier object of the same name, another UID. Guarded by the
	// shard's lock.
	Older  *Entry
	Series []lookup.Ref // guarded by the shard's lock; what a reader took stays as it was: only appended to, or copied
	dead   int32        // of them
	Kind   metric.Kind
}

// Object is what the entry is about. Its strings last.
func (e *Entry) Object() metric.Object {
	return metric.Object{Resource: e.Family.Key.Resource, Namespace: e.Family.Key.Namespace, Name: e.Name, UID: e.UID}
}

// External reports whether there is no object.
func (e *Entry) External() bool { return e.Family.Key.Resource == "" }

func New() *Index {
	x := &Index{Hash: lookup.NewHash()}
	for i := range x.Shards {
		x.Shards[i].hash, x.Shards[i].Families = &x.Hash, map[uint64]*Family{}
	}
	return x
}

// hashOf is the hash of an object's name in the family.
func (f *Family) hashOf(name string) uint64 { return f.Shard.hash.String(f.hash, name) }

// named returns the newest entry of a name; nil: there is none.
func (f *Family) named(name string) *Entry { return f.Entries.find(f.hashOf(name), name) }

// ShardOfKey returns where the family of a key is, and by which hash.
func (x *Index) ShardOfKey(k Key) (*Shard, uint64) {
	hash := k.sum(&x.Hash)
	return &x.Shards[hash%uint64(len(x.Shards))], hash
}

// Family finds a family; nil: there is none.
func (s *Shard) Family(hash uint64, k Key) *Family {
	for f := s.Families[hash]; f != nil; f = f.next {
		if f.Key == k {
			return f
		}
	}
	return nil
}

// Each yields the families; the lock is held. Who is handed one may let go of it for a moment: what
// stays is yielded, what comes or goes meanwhile may be, and what goes and comes again even twice.
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

// ObjectOf is an entry's object until the next call.
func (s *Shard) ObjectOf(e *Entry) *metric.Object {
	s.object = e.Object()
	return &s.object
}

// mostShared is how long labels may be for others to be looked for that are the same.
const mostShared = 128

// Shared returns labels in memory that lasts. Pods of one workload have the same ones beside what
// says whose they are: so those that were handed out last are looked at first.
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

// ShardOf is where the family of a form is.
func (x *Index) ShardOf(form *Identity) *Shard {
	return &x.Shards[form.FamilySum%uint64(len(x.Shards))]
}

// Enter returns the entry of a metric of an object, making it where there is none, and its shard
// locked: the caller looks at the kind, adds its series, and unlocks.
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

func (e *Entry) AddLocked(r lookup.Ref) { e.Series = append(e.Series, r) }

// RemoveLocked notes that n of the series are dead. They stay in the list, where readers pass them
// over, until they are half of it: so the end of a large family costs no more than its size. The
// last one takes the entry with it, and the last entry the family.
func (e *Entry) RemoveLocked(n int, isLive func(lookup.Ref) bool) {
	e.dead += int32(n)
	if 2*int(e.dead) >= len(e.Series) {
		e.Series = slices.DeleteFunc(slices.Clone(e.Series), func(r lookup.Ref) bool { return !isLive(r) })
		e.dead = 0
	}
	e.TidyLocked()
}

// TidyLocked takes an entry without series out.
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

// Mixed reports whether a family's entries have different kinds. Nearly none has.
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

// Ends are the addresses of an entry's first byte and its last: it lies in two cache lines.
func (e *Entry) Ends() (first, last uintptr) {
	first = uintptr(unsafe.Pointer(e))
	return first, first + unsafe.Sizeof(*e) - 1
}
