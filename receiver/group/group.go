package group

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Key identifies a group.
type Key struct {
	// Namespace is the group's namespace, or empty.
	Namespace string
	// Labels are the grouping labels, including "job".
	Labels metric.Labels
}

// Hash is a key in 128 bits, cryptographic: no client can produce two keys of one hash.
type Hash [16]byte

func (k Key) Hash() (h Hash) {
	var room [512]byte
	text := binary.AppendUvarint(room[:0], uint64(len(k.Namespace)))
	text = append(text, k.Namespace...)
	text = append(text, k.Labels.Packed()...)
	sum := sha256.Sum256(text)
	copy(h[:], sum[:])
	return h
}

// group is one group. A push or delete holds the lock while it changes table and group, so that
// they agree. A shard's lock may be taken while this one is held, never the other way round.
type group struct {
	key   Key
	hash  Hash
	about metric.Object
	usage *usage // of the namespace that pays for it

	// turn is held by the one push that waits for mu. So the flush, replication and deletions of
	// namespaces wait for two pushes to a group: that which has mu, and that which was next.
	turn    sync.Mutex
	mu      sync.Mutex
	removed bool // from the shard for good; guarded by mu
	// contents are immutable and replaced as a whole, so readers need no lock. Nil: not pushed to
	// yet.
	contents atomic.Pointer[contents]
}

// contents is the content of a group.
type contents struct {
	families []*family // sorted by name
	times
	bytes int64
	// versions are nil without other replicas.
	versions *versions
}

// times of a group, in Unix nanoseconds; 0: never.
type times struct {
	pushed, failed int64
	ttl            time.Duration // 0: forever
	// began is the start of the TTL on the table's lifetime clock: the last applied push or,
	// without one, the last rejected push. 0: an old document has no start.
	began time.Duration
}

// from is the wall-clock time of began, in Unix nanoseconds.
func (t *times) from() int64 {
	if t.pushed == 0 {
		return t.failed
	}
	return t.pushed
}

// ends is the end of the group on the lifetime clock; 0: never.
func (t *times) ends() time.Duration {
	if t.ttl == 0 {
		return 0
	}
	return saturatingAdd(t.began, t.ttl)
}

// expires is the wall-clock time of ends, in Unix nanoseconds; 0: never.
func (t *times) expires() int64 {
	if t.ttl == 0 {
		return 0
	}
	return saturatingAdd(t.from(), int64(t.ttl))
}

// saturatingAdd adds two numbers of at least 0.
func saturatingAdd[T ~int64](a, b T) T {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}

func (t *times) expired(now time.Duration) bool { e := t.ends(); return e != 0 && e <= now }

// family is a family as it was last pushed, with the grouping labels. Successive contents share it;
// it is immutable. The labels of each metric are sorted by key.
type family struct {
	exposition.Family
	pushed int64 // Unix nanoseconds
	// unserved marks the metrics that the table does not have; nil: it has all.
	unserved []bool
	bytes    int64
}

// newFamily makes a family of so many metrics. A single metric, the common case, is allocated with
// it.
func newFamily(t exposition.Type, metrics int, pushed int64) *family {
	if metrics == 1 {
		one := &struct {
			family
			metrics [1]exposition.Metric
		}{}
		one.Type, one.pushed, one.Metrics = t, pushed, one.metrics[:]
		return &one.family
	}
	return &family{Family: exposition.Family{Type: t, Metrics: make([]exposition.Metric, metrics)}, pushed: pushed}
}

func (f *family) served(i int) bool { return f.unserved == nil || !f.unserved[i] }

// find returns the family of a name, or nil.
func (c *contents) find(name string) *family {
	if i := c.place(name); i >= 0 {
		return c.families[i]
	}
	return nil
}

// place is the index of a family; -1: there is none.
func (c *contents) place(name string) int {
	if c == nil {
		return -1
	}
	low, high := 0, len(c.families)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if c.families[middle].Name < name {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(c.families) && c.families[low].Name == name {
		return low
	}
	return -1
}

// replacedIn yields the families that differ in later contents, each with the one whose series go on with
// its own; nil: there is none, or it has another kind.
func (c *contents) replacedIn(next *contents) iter.Seq2[*family, *family] {
	return func(yield func(old, f *family) bool) {
		for _, old := range c.families {
			f := next.find(old.Name)
			if f == old {
				continue
			}
			if f != nil && f.Type.Kind() != old.Type.Kind() {
				f = nil
			}
			if !yield(old, f) {
				return
			}
		}
	}
}

func (c *contents) typeOf(name string) (exposition.Type, bool) {
	f := c.find(name)
	if f == nil {
		return 0, false
	}
	return f.Type, true
}
