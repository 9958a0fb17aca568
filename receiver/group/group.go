package group

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Key is what a group is found by.
type Key struct {
	// Namespace that the group belongs to; empty: none.
	Namespace string
	// Labels are the grouping labels, "job" among them.
	Labels metric.Labels
}

// Hash is a key in 128 bits. Nobody can make two keys of one hash.
type Hash [16]byte

// Hash returns the key's.
func (k Key) Hash() (h Hash) {
	var room [512]byte
	text := binary.AppendUvarint(room[:0], uint64(len(k.Namespace)))
	text = append(text, k.Namespace...)
	text = append(text, k.Labels.Packed()...)
	sum := sha256.Sum256(text)
	copy(h[:], sum[:])
	return h
}

// group is one group. Whoever pushes to it or deletes it holds its lock, the table's part of that included, so that the table
// holds what the group says. The lock of a shard may be taken within it, never the other way round.
type group struct {
	key   Key
	hash  Hash
	about metric.Object
	usage *usage // of the namespace that it is about

	mu   sync.Mutex
	gone bool // out of its shard for good; guarded by mu
	// contents are replaced whole and never changed: who reads them needs no lock. Nil: not pushed to yet.
	contents atomic.Pointer[contents]
}

// contents are what a group holds.
type contents struct {
	families []*family // in order of their names
	times
	bytes int64
}

// times of a group, in Unix nanoseconds; 0: never.
type times struct {
	pushed, failed int64
	ttl            time.Duration // 0: for ever
	// began is when the time to live began, by the table's lifetime clock: at the last push; where none was taken, at the
	// last that was refused. 0: an older document does not say.
	began time.Duration
}

// from is the date of began, in Unix nanoseconds.
func (t *times) from() int64 {
	if t.pushed == 0 {
		return t.failed
	}
	return t.pushed
}

// ends is when a group ends, by the lifetime clock; 0: never.
func (t *times) ends() time.Duration {
	if t.ttl == 0 {
		return 0
	}
	return t.began + t.ttl
}

// expires is the date of ends, in Unix nanoseconds; 0: never.
func (t *times) expires() int64 {
	if t.ttl == 0 {
		return 0
	}
	return t.from() + int64(t.ttl)
}

func (t *times) over(now time.Duration) bool { e := t.ends(); return e != 0 && e <= now }

// family is a family as it was pushed last, with the grouping labels in place. It is shared by the contents that follow
// each other, and never changed. The labels of each metric are sorted by key.
type family struct {
	exposition.Family
	pushed int64 // Unix nanoseconds
	// unserved says of each metric whether the table does not have it; nil: it has all.
	unserved []bool
	bytes    int64
}

// newFamily makes one with room for so many metrics: for the one that most have, in the same piece of memory.
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
	if c == nil {
		return nil
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
		return c.families[low]
	}
	return nil
}

func (c *contents) typeOf(name string) (exposition.Type, bool) {
	f := c.find(name)
	if f == nil {
		return 0, false
	}
	return f.Type, true
}
