package limit

import (
	"hash/maphash"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
)

// Cluster is the part of the cluster view that decides about new series. Its methods answer from
// memory.
type Cluster interface {
	// Limits returns the limits that the namespace's LimitRanges set.
	Limits(namespace string) metric.Limits
	// NamedByAutoscaler reports whether an autoscaler of the namespace names the metric, for
	// objects of the resource.
	NamedByAutoscaler(namespace, resource, name string) bool
	// Alive reports whether the object exists, as far as is known. It reports false before
	// ObjectGone is called.
	Alive(o metric.Object) bool
}

// Table removes series for the registry.
type Table interface {
	// Shed removes a metric of an object that was evicted, End one whose object is gone.
	Shed(o metric.Object, name string) int
	// ShedSeries removes single series of a metric.
	ShedSeries(o metric.Object, name string, sets []metric.Labels) int
	End(o metric.Object, name string) int
	Births
	// RetryRejected lets rejected series ask again with their next sample.
	RetryRejected()
}

// EventRecorder writes Events for people to read.
type EventRecorder interface {
	// Event writes an Event about a metric of an object.
	Event(o metric.Object, reason, name, message string)
}

// Registry counts the series of each quota and admits new ones. Any goroutine may call its methods.
type Registry struct {
	config    Config
	cluster   Cluster
	table     Table
	events    EventRecorder
	logger    *slog.Logger
	seed      maphash.Seed
	shards    [64]shard
	metrics   metrics
	enforcing atomic.Bool // set once the cluster view is synced

	origins  origins
	contests contests

	said ratelog.Limiter // rate limit of the log of rejections

	mu   sync.Mutex // guards jobs
	jobs []func()   // executed by Run, because they call the table
	wake chan struct{}
}

// New makes an empty registry. Run has to run for anything to be removed.
func New(c Config, cluster Cluster, t Table, events EventRecorder, logger *slog.Logger) *Registry {
	r := &Registry{
		config: c, cluster: cluster, table: t, events: events, logger: logger,
		seed: maphash.MakeSeed(), metrics: newMetrics(), wake: make(chan struct{}, 1),
		said: ratelog.Limiter{Interval: 5 * time.Second},
	}
	for i := range r.shards {
		r.shards[i].quotas = map[uint64]*quota{}
	}
	return r
}

// shardOf returns the shard of a key, and the key's hash.
func (r *Registry) shardOf(k quotaKey) (*shard, uint64) {
	hash := maphash.Comparable(r.seed, k)
	return &r.shards[hash%uint64(len(r.shards))], hash
}

// withQuota calls f with the quota of a key, under its lock. It makes a missing quota, and drops an
// empty one afterwards.
func (r *Registry) withQuota(k quotaKey, f func(*quota)) {
	shard, hash := r.shardOf(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s := shard.find(hash, k)
	known := s != nil
	if !known {
		s = &quota{key: k}
	}
	f(s)
	switch {
	case known && s.empty():
		shard.drop(hash, s)
	case !known && !s.empty():
		shard.put(hash, s)
	}
}

// shard holds some of the quotas, by the hash of their key. The quotas hold the keys themselves.
type shard struct {
	mu     sync.Mutex
	quotas map[uint64]*quota // quotas of one hash are a linked list
	// holders are the origins of each series, by a hash of its identity; nil without other
	// replicas.
	holders map[uint64]originSet
}

func (s *shard) find(hash uint64, k quotaKey) *quota {
	for q := s.quotas[hash]; q != nil; q = q.next {
		if q.key == k {
			return q
		}
	}
	return nil
}

func (s *shard) put(hash uint64, q *quota) {
	q.next = s.quotas[hash]
	s.quotas[hash] = q
}

func (s *shard) drop(hash uint64, gone *quota) {
	first := s.quotas[hash]
	if first == gone && gone.next == nil {
		delete(s.quotas, hash)
		return
	}
	if first == gone {
		s.quotas[hash] = gone.next
		return
	}
	for q := first; q != nil; q = q.next {
		if q.next == gone {
			q.next = gone.next
			return
		}
	}
}

func (s *shard) all() iter.Seq[*quota] {
	return func(yield func(*quota) bool) {
		for _, first := range s.quotas {
			for q := first; q != nil; q = q.next {
				if !yield(q) {
					return
				}
			}
		}
	}
}

// slot belongs to one metric.
type slot struct {
	name string // the caller's string, which all pods of a namespace share
	// byObject counts the series of each object, if an object other than the quota's own has the
	// metric; nil: all series are the own object's.
	byObject map[metric.Object]uint32
	since    uint32 // tick of the first series
	series   uint32
	// evicted: the slot was taken away. Its series are about to be removed, and no longer count.
	evicted bool
	// idle: with several replicas, the metric yields to one that would be rejected otherwise.
	idle bool
}

// enter counts one more series of an object.
func (s *slot) enter(o *metric.Object, in quotaKey) {
	if own := in.own(); s.byObject == nil && *o != own {
		s.byObject = map[metric.Object]uint32{}
		if s.series > 0 {
			s.byObject[own] = s.series
		}
	}
	if s.byObject != nil {
		s.byObject[*o]++
	}
	s.series++
}

// leave counts one series of an object less, if it has one.
func (s *slot) leave(o *metric.Object, in quotaKey) bool {
	if s.byObject == nil {
		if *o != in.own() || s.series == 0 {
			return false
		}
		s.series--
		return true
	}
	if s.byObject[*o] == 0 {
		return false
	}
	if s.byObject[*o]--; s.byObject[*o] == 0 {
		delete(s.byObject, *o)
	}
	s.series--
	return true
}

// objects returns the objects that have the metric.
func (s *slot) objects(in quotaKey) []metric.Object {
	if s.byObject == nil {
		return []metric.Object{in.own()}
	}
	return slices.Collect(maps.Keys(s.byObject))
}

// maxScannedSlots is the most slots that are searched one by one. A quota with more has a
// nameIndex.
const maxScannedSlots = 16

// exactGrowth is up to how many slots the slice grows by one: doubling it for each of 150,000 pods
// would waste memory.
const exactGrowth = 8

// nameIndex finds the slots of a quota that has many.
type nameIndex struct {
	positions map[string]int // in the quota's slots, by name
	// empty slots stay until they are half of all, so removing n slots takes O(n).
	empty int
}

func (s *quota) nameIndex() *nameIndex {
	if s.extras == nil {
		return nil
	}
	return s.extras.index
}

// slot returns a metric's slot; nil: it has none. Slots stay in place as taken says.
func (s *quota) slot(name string) *slot {
	if c := s.nameIndex(); c != nil {
		if place, ok := c.positions[name]; ok {
			return &s.slots[place]
		}
		return nil
	}
	for i := range s.slots {
		if s.slots[i].name == name {
			return &s.slots[i]
		}
	}
	return nil
}

// addSlot appends a slot. The caller enters a series into it at once.
func (s *quota) addSlot(one slot) *slot {
	if n := len(s.slots); n == cap(s.slots) && n < exactGrowth {
		wider := make([]slot, n, n+1)
		copy(wider, s.slots)
		s.slots = wider
	}
	s.slots = append(s.slots, one)
	if c := s.nameIndex(); c != nil {
		c.positions[one.name] = len(s.slots) - 1
	} else if len(s.slots) > maxScannedSlots {
		s.reindex()
	}
	return &s.slots[len(s.slots)-1]
}

// reindex makes the name index if there are many slots, and drops it otherwise.
func (s *quota) reindex() {
	if len(s.slots) <= maxScannedSlots {
		s.extras.index = nil
		return
	}
	c := &nameIndex{positions: make(map[string]int, len(s.slots))}
	for i := range s.slots {
		c.positions[s.slots[i].name] = i
	}
	s.ensureExtras().index = c
}

// removeSlot removes a slot that has no series left.
func (s *quota) removeSlot(one *slot) {
	c := s.nameIndex()
	if c == nil {
		s.slots = slices.DeleteFunc(s.slots, func(each slot) bool { return each.series == 0 })
		return
	}
	delete(c.positions, one.name)
	*one = slot{}
	if c.empty++; 2*c.empty >= len(s.slots) {
		s.slots = slices.Clone(slices.DeleteFunc(s.slots, func(each slot) bool { return each.series == 0 }))
		s.reindex()
	}
}
