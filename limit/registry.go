package limit

import (
	"hash/maphash"
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

// Admit enters one more series, or says that it may not be. The strings are kept.
func (b *Registry) Admit(o *metric.Object, name string, born uint32) (refused metric.Reason) {
	b.withQuota(quotaKeyOf(o), func(s *quota) {
		if refused = b.admitLocked(s, o, name); refused == metric.Applied {
			delete(s.rejected(), name)
			s.enterSeries(o, name, born)
		}
	})
	return refused
}

// admitLocked decides about a series. That its object lives is seen under the lock that Gone takes: either it is dead
// here, or Gone comes later and finds the series.
func (b *Registry) admitLocked(s *quota, o *metric.Object, name string) metric.Reason {
	if !o.External() && !b.rules.Alive(*o) {
		return metric.Identity
	}
	if s.key.namespace == "" {
		return metric.Applied
	}
	if own := s.slot(name); own != nil && own.evicted {
		return metric.OverLimit // for a moment: when its old series are out, the next sample asks again
	}
	limit := s.key.limit(b.rules.Limits(s.key.namespace).Or(b.config.limits()))
	if !b.freeSlotLocked(s, limit, o, name) {
		b.rejectLocked(s, limit, o, name)
		return metric.OverLimit
	}
	return metric.Applied
}

// Enter enters a series that is there already. The strings are kept.
func (b *Registry) Enter(o *metric.Object, name string, born uint32) {
	b.withQuota(quotaKeyOf(o), func(s *quota) { s.enterSeries(o, name, born) })
}

// Leave says that a series is gone.
func (b *Registry) Leave(o *metric.Object, name string) {
	b.withQuota(quotaKeyOf(o), func(s *quota) { s.leaveSeries(o, name) })
}

// Gone says that an object is gone: its series go too, and what is known of its refusals. With a namespace goes all that
// was in it, its external metrics too: another one of the same name inherits nothing.
func (b *Registry) ObjectGone(o metric.Object) {
	whole := o.Resource == "namespaces"
	b.withQuota(quotaKeyOf(&o), func(s *quota) {
		if s.key.pod != "" || whole {
			s.clearRejected()
		}
		var ended []func()
		for one := range s.taken() {
			name := one.name
			for _, held := range one.objects(s.key) {
				if held == o || whole {
					ended = append(ended, func() { b.table.End(held, name) })
				}
			}
		}
		if len(ended) > 0 {
			b.enqueue(func() {
				for _, end := range ended {
					end()
				}
			})
		}
	})
	if whole {
		b.metrics.rejections.DeleteLabelValues(o.Name)
	}
}

// AskedChanged says that autoscalers name other metrics than before.
func (b *Registry) AutoscalersChanged(string) { b.enqueue(b.table.Readmit) }

// LimitsChanged says that a namespace has other limits than before: what is beyond goes, what was refused may come.
func (b *Registry) LimitsChanged(namespace string) {
	if !b.enforcing.Load() {
		b.enqueue(b.table.Readmit) // Settle looks at all of them
		return
	}
	b.enqueue(func() { b.enforceWhere(func(k quotaKey) bool { return k.namespace == namespace }) })
}

// Settle says that the rules are known from now on: what was entered without them is held to them. Before, nobody loses a
// place, for which metrics autoscalers ask for may not have been read yet.
func (b *Registry) Enforce() {
	b.enforcing.Store(true)
	b.enqueue(func() { b.enforceWhere(func(quotaKey) bool { return true }) })
}

func (b *Registry) enforceWhere(concerns func(quotaKey) bool) {
	for i := range b.shards {
		b.enforceShard(&b.shards[i], concerns)
	}
	b.table.Readmit()
}

func (b *Registry) enforceShard(shard *shard, concerns func(quotaKey) bool) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for s := range shard.all() {
		if k := s.key; k.namespace != "" && concerns(k) {
			s.clearRejected() // the limit is another one: who is refused now is told of it
			b.enforceLocked(s, k.limit(b.rules.Limits(k.namespace).Or(b.config.limits())))
		}
	}
}
