package limit

import (
	"hash/maphash"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Rules are what the cluster says. They are asked while a new series waits: they answer from memory.
type Rules interface {
	// Limits is what the namespace's LimitRanges say.
	Limits(namespace string) metric.Limits
	// Asked reports whether an autoscaler of the namespace names the metric, for objects of the resource.
	NamedByAutoscaler(namespace, resource, name string) bool
	// Alive reports whether the object is there, as far as anybody can say. What is gone is dead before Gone is called.
	Alive(o metric.Object) bool
}

// Table is what the book has series removed from.
type Table interface {
	// Shed removes a metric of an object that lost its slot, End one whose object is gone.
	Shed(o metric.Object, name string) int
	End(o metric.Object, name string) int
	// Idle is how long ago the metric's last sample came.
	Idle(o metric.Object, name string) time.Duration
	// Readmit makes the next samples of what was refused ask again.
	Readmit()
}

// Witness is told what became of a pod's metric, for people to read.
type EventRecorder interface {
	Event(o metric.Object, reason, message string)
}

// Book knows who holds which slot. Every method may be called by many goroutines at once.
type Registry struct {
	config    Config
	rules     Rules
	table     Table
	events    EventRecorder
	logger    *slog.Logger
	seed      maphash.Seed
	shards    [64]shard
	metrics   metrics
	enforcing atomic.Bool // the rules are known

	said sparse // of refusals

	mu   sync.Mutex // guards jobs
	jobs []func()   // what Run does, for it calls the table
	wake chan struct{}
}

// New makes an empty book. Run has to run for anything to leave it.
func New(c Config, r Rules, t Table, w EventRecorder, logger *slog.Logger) *Registry {
	b := &Registry{
		config: c, rules: r, table: t, events: w, logger: logger,
		seed: maphash.MakeSeed(), metrics: newMetrics(), wake: make(chan struct{}, 1),
	}
	for i := range b.shards {
		b.shards[i].quotas = map[uint64]*quota{}
	}
	return b
}

// shard returns where the scope of a key is, and by which hash.
func (b *Registry) shardOf(k quotaKey) (*shard, uint64) {
	hash := maphash.Comparable(b.seed, k)
	return &b.shards[hash%uint64(len(b.shards))], hash
}

// with calls f with the scope of a key, made where there is none, and forgets it if it is empty afterwards.
func (b *Registry) withQuota(k quotaKey, f func(*quota)) {
	shard, hash := b.shardOf(k)
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

// shard has some of the scopes. They are by the hash of their key alone, which they hold themselves.
type shard struct {
	mu     sync.Mutex
	quotas map[uint64]*quota // those of one hash follow one another
}

func (s *shard) find(hash uint64, k quotaKey) *quota {
	for one := s.quotas[hash]; one != nil; one = one.next {
		if one.key == k {
			return one
		}
	}
	return nil
}

func (s *shard) put(hash uint64, one *quota) {
	one.next = s.quotas[hash]
	s.quotas[hash] = one
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
	for one := first; one != nil; one = one.next {
		if one.next == gone {
			one.next = gone.next
			return
		}
	}
}

func (s *shard) all() iter.Seq[*quota] {
	return func(yield func(*quota) bool) {
		for _, first := range s.quotas {
			for one := first; one != nil; one = one.next {
				if !yield(one) {
					return
				}
			}
		}
	}
}
