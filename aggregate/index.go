package aggregate

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// index finds series the way readers ask for them: by resource, namespace and metric name, then by object.
// Writers touch it only to create a series. Its locks are held for a map's work or a piece of a family's copy, never
// while a value is read.
type index struct {
	hash   lineHash
	shards [64]indexShard
	list   listing
	orders orders
}

type indexShard struct {
	hash     *lineHash
	mu       sync.Mutex
	families map[uint64]*family // by the hash of their key; those of one hash follow one another
	object   metric.Object      // that of the entry in hand, here for who is handed it
	sets     [64]string         // labels, packed, that were handed out last
}

type familyKey struct{ resource, namespace, name string }

// family is one metric of all objects of a resource in a namespace.
type family struct {
	key     familyKey
	hash    uint64
	next    *family     // of the same hash
	shard   *indexShard // its lock guards all below
	entries names       // by the object's name, the newest first; externals have one, named ""
	order   *order      // nil: not kept
	changes uint64      // how many entries came and went
	kinds   kindCounts  // of the entries, elders among them
}

func (k familyKey) sum(h *lineHash) uint64 {
	return h.string(h.string(h.string(h.c, k.resource), k.namespace), k.name)
}

// entry is one metric of one object: its label sets are rolled up, and all of one kind.
type entry struct {
	family    *family
	name, uid string // of the object
	// older is the metric of an earlier object of the same name, another UID. Guarded by the shard's lock.
	older  *entry
	series []ref // guarded by the shard's lock; what a reader took stays as it was: only appended to, or copied
	dead   int32 // of them
	kind   metric.Kind
}

// object is what the entry is about. Its strings last.
func (e *entry) object() metric.Object {
	return metric.Object{Resource: e.family.key.resource, Namespace: e.family.key.namespace, Name: e.name, UID: e.uid}
}

// external reports whether there is no object.
func (e *entry) external() bool { return e.family.key.resource == "" }

func newIndex() *index {
	x := &index{hash: newLineHash()}
	for i := range x.shards {
		x.shards[i].hash, x.shards[i].families = &x.hash, map[uint64]*family{}
	}
	return x
}

// hashOf is the hash of an object's name in the family.
func (f *family) hashOf(name string) uint64 { return f.shard.hash.string(f.hash, name) }

// named returns the newest entry of a name; nil: there is none.
func (f *family) named(name string) *entry { return f.entries.find(f.hashOf(name), name) }

// shard returns where the family of a key is, and by which hash.
func (x *index) shard(k familyKey) (*indexShard, uint64) {
	hash := k.sum(&x.hash)
	return &x.shards[hash%uint64(len(x.shards))], hash
}

// family finds a family; nil: there is none.
func (s *indexShard) family(hash uint64, k familyKey) *family {
	for f := s.families[hash]; f != nil; f = f.next {
		if f.key == k {
			return f
		}
	}
	return nil
}

// each yields the families; the lock is held. Who is handed one may let go of it for a moment: what stays is yielded, what
// comes or goes meanwhile may be, and what goes and comes again even twice.
func (s *indexShard) each() iter.Seq[*family] {
	return func(yield func(*family) bool) {
		for _, first := range s.families {
			for f := first; f != nil; f = f.next {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// objectOf is an entry's object until the next call.
func (s *indexShard) objectOf(e *entry) *metric.Object {
	s.object = e.object()
	return &s.object
}

// mostShared is how long labels may be for others to be looked for that are the same.
const mostShared = 128

// shared returns labels in memory that lasts. Pods of one workload have the same ones beside what says whose they are: so those that
// were handed out last are looked at first.
func (s *indexShard) shared(h *lineHash, packed string) string {
	if len(packed) > mostShared {
		return strings.Clone(packed)
	}
	last := &s.sets[h.string(h.c, packed)%uint64(len(s.sets))]
	if *last != packed {
		*last = strings.Clone(packed)
	}
	return *last
}

// shardOf is where the family of a form is.
func (x *index) shardOf(form *canonicalForm) *indexShard {
	return &x.shards[form.family%uint64(len(x.shards))]
}

// enter returns the entry of a metric of an object, making it where there is none, and its shard locked: the
// caller looks at the kind, adds its series, and unlocks.
func (x *index) enter(form *canonicalForm, kind metric.Kind) (*entry, *indexShard) {
	key := form.familyKey()
	shard := x.shardOf(form)
	shard.mu.Lock()
	f := shard.family(form.family, key)
	if f == nil {
		f = shard.addLocked(form.family, key)
	}
	newest := f.entries.find(form.named, form.object.Name)
	for e := newest; e != nil; e = e.older {
		if e.uid == form.object.UID {
			return e, shard
		}
	}
	e := &entry{family: f, name: form.object.Name, uid: form.object.UID, kind: kind, older: newest}
	if !form.lasting {
		e.name, e.uid = strings.Clone(e.name), strings.Clone(e.uid)
	}
	f.entries.put(form.named, e)
	f.kinds[kind]++
	f.enteredLocked(e)
	return e, shard
}

func (s *indexShard) addLocked(hash uint64, k familyKey) *family {
	k = familyKey{strings.Clone(k.resource), strings.Clone(k.namespace), strings.Clone(k.name)}
	f := &family{key: k, hash: hash, next: s.families[hash], shard: s}
	s.families[hash] = f
	return f
}

func (s *indexShard) removeLocked(gone *family) {
	first := s.families[gone.hash]
	switch {
	case first == gone && gone.next == nil:
		delete(s.families, gone.hash)
	case first == gone:
		s.families[gone.hash] = gone.next
	default:
		for f := first; f != nil; f = f.next {
			if f.next == gone {
				f.next = gone.next
				return
			}
		}
	}
}

func (e *entry) addLocked(r ref) { e.series = append(e.series, r) }

// removeLocked notes that n of the series are dead. They stay in the list, where readers pass them over, until they are
// half of it: so the end of a large family costs no more than its size. The last one takes the entry with it, and the last
// entry the family.
func (e *entry) removeLocked(n int, isLive func(ref) bool) {
	e.dead += int32(n)
	if 2*int(e.dead) >= len(e.series) {
		e.series = slices.DeleteFunc(slices.Clone(e.series), func(r ref) bool { return !isLive(r) })
		e.dead = 0
	}
	e.tidyLocked()
}

// tidyLocked takes an entry without series out.
func (e *entry) tidyLocked() {
	if len(e.series) > 0 {
		return
	}
	f := e.family
	f.removeLocked(e)
	if f.entries.live == 0 {
		f.shard.removeLocked(f)
	}
}

func (f *family) removeLocked(e *entry) {
	f.kinds[e.kind]--
	f.leftLocked()
	hash := f.hashOf(e.name)
	newest := f.entries.find(hash, e.name)
	switch {
	case newest != e:
		for at := newest; at != nil; at = at.older {
			if at.older == e {
				at.older = e.older
				return
			}
		}
	case e.older != nil:
		f.entries.put(hash, e.older)
	default:
		f.entries.remove(hash, e.name)
	}
}

// kindCounts counts something by kind.
type kindCounts [metric.Set + 1]int

// mixed reports whether a family's entries have different kinds. Nearly none has.
func (x *index) mixed(key familyKey) bool {
	shard, hash := x.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	f, kinds := shard.family(hash, key), 0
	if f == nil {
		return false
	}
	for _, n := range f.kinds {
		kinds += min(n, 1)
	}
	return kinds > 1
}

// ends are the addresses of an entry's first byte and its last: it lies in two cache lines.
func (e *entry) ends() (first, last uintptr) {
	first = uintptr(unsafe.Pointer(e))
	return first, first + unsafe.Sizeof(*e) - 1
}
