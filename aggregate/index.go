package aggregate

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// index finds series the way readers ask for them: by resource, namespace and metric name, then by object.
// Writers touch it only to create a series. Its locks are held for a map's work or a piece of a family's copy, never
// while a value is read.
type index struct {
	seed   maphash.Seed
	shards [64]indexShard
	list   listing
	orders orders
}

type indexShard struct {
	mu       sync.Mutex
	families map[familyKey]*family
}

type familyKey struct{ resource, namespace, name string }

// family is one metric of all objects of a resource in a namespace.
type family struct {
	key     familyKey
	shard   *indexShard       // its lock guards all below
	entries map[string]*entry // by the object's name, the newest first; externals have one, named ""
	order   *order            // nil: not kept
	changes uint64            // how many entries came and went
}

// entry is one metric of one object: its label sets are rolled up, and all of one kind.
type entry struct {
	family *family
	object metric.Object
	kind   metric.Kind
	// older is the metric of an earlier object of the same name, another UID. Guarded by the shard's lock.
	older  *entry
	series []ref // guarded by the shard's lock; what a reader took stays as it was: only appended to, or copied
	dead   int   // of them
}

func newIndex() *index {
	x := &index{seed: maphash.MakeSeed()}
	for i := range x.shards {
		x.shards[i].families = map[familyKey]*family{}
	}
	return x
}

func (x *index) shard(k familyKey) *indexShard {
	h := maphash.Comparable(x.seed, k)
	return &x.shards[h%uint64(len(x.shards))]
}

// enter returns the entry of a metric of an object, making it where there is none, and its shard locked: the
// caller looks at the kind, adds its series, and unlocks.
func (x *index) enter(o metric.Object, name string, kind metric.Kind) (*entry, *indexShard) {
	key := familyKey{o.Resource, o.Namespace, name}
	shard := x.shard(key)
	shard.mu.Lock()
	f := shard.families[key]
	if f == nil {
		f = &family{key: key, shard: shard, entries: map[string]*entry{}}
		shard.families[key] = f
	}
	newest := f.entries[o.Name]
	for e := newest; e != nil; e = e.older {
		if e.object.UID == o.UID {
			return e, shard
		}
	}
	e := &entry{family: f, object: o, kind: kind, older: newest}
	f.entries[o.Name] = e
	f.enteredLocked(e)
	return e, shard
}

func (e *entry) addLocked(r ref) { e.series = append(e.series, r) }

// removeLocked notes that n of the series are dead. They stay in the list, where readers pass them over, until they are
// half of it: so the end of a large family costs no more than its size. The last one takes the entry with it, and the last
// entry the family.
func (e *entry) removeLocked(n int, isLive func(ref) bool) {
	e.dead += n
	if 2*e.dead >= len(e.series) {
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
	if len(f.entries) == 0 {
		delete(f.shard.families, f.key)
	}
}

func (f *family) removeLocked(e *entry) {
	f.leftLocked()
	name := e.object.Name
	newest := f.entries[name]
	switch {
	case newest != e:
		for at := newest; at != nil; at = at.older {
			if at.older == e {
				at.older = e.older
				return
			}
		}
	case e.older != nil:
		f.entries[name] = e.older
	default:
		delete(f.entries, name)
	}
}
