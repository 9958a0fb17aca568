package record

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// maxPushed bounds the metrics whose senders are remembered, about 700 bytes each.
const maxPushed = 8192

// Pushers remembers some senders of each metric. It is told once per new line of a sender, and per
// sample of an HTTP request that no line cache knows; never of a known line. Any goroutine may call
// its methods. The nil Pushers remembers nothing.
type Pushers struct {
	// known finds metrics that were pushed lately, by their hash, without a lock. Metrics of equal low
	// bits share a slot.
	known [1 << 12]atomic.Pointer[pushed]
	seed  maphash.Seed
	max   int

	mu  sync.Mutex
	all map[metricName]*pushed
}

type metricName struct{ namespace, name string }

// pushed is a metric with some of its senders. The atomics are written without the lock.
type pushed struct {
	metricName
	hash uint64
	last atomic.Uint64 // key of the sender that pushed last
	full atomic.Bool   // there are MetricSenders senders
	seen atomic.Uint32 // new lines
	gone atomic.Bool   // the entry was forgotten

	// of Pushers.mu: the newest first
	senders []inspect.MetricSender
}

// NewPushers returns an empty record.
func NewPushers() *Pushers {
	return &Pushers{seed: maphash.MakeSeed(), max: maxPushed, all: map[metricName]*pushed{}}
}

// linesPerSender is how many new lines of a metric with enough senders pass for one that is looked at:
// enough to follow a rollout, and too few to matter when a cluster starts.
const linesPerSender = 16

// Pushed notes that a sender pushed a metric of a namespace. The texts are borrowed.
func (p *Pushers) Pushed(from *metric.Sender, namespace string, name []byte) {
	if p == nil || from == nil || len(name) > maxMetric {
		return
	}
	hash := maphash.Bytes(p.seed, name)*31 + maphash.String(p.seed, namespace)
	slot := &p.known[hash%uint64(len(p.known))]
	pushed := slot.Load()
	if pushed != nil && pushed.hash == hash && !pushed.gone.Load() {
		if pushed.last.Load() == from.Key || pushed.full.Load() && pushed.seen.Add(1)%linesPerSender != 0 {
			return
		}
	}
	slot.Store(p.enter(from, namespace, name, hash))
}

// enter notes a sender in the entry of a metric, and makes the entry if necessary.
func (p *Pushers) enter(from *metric.Sender, namespace string, name []byte, hash uint64) *pushed {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[metricName{namespace, metric.Borrow(name)}]
	if one == nil {
		if len(p.all) >= p.max {
			p.forgetLocked()
		}
		one = &pushed{metricName: metricName{strings.Clone(namespace), string(name)}, hash: hash}
		p.all[one.metricName] = one
	}
	one.last.Store(from.Key)
	who := senderOf(from, one.namespace)
	if i := slices.Index(one.senders, who); i >= 0 {
		one.senders = slices.Delete(one.senders, i, i+1)
	} else if len(one.senders) == inspect.MetricSenders {
		one.senders = one.senders[:inspect.MetricSenders-1]
	}
	one.senders = slices.Insert(one.senders, 0, who)
	one.full.Store(len(one.senders) == inspect.MetricSenders)
	return one
}

func senderOf(from *metric.Sender, namespace string) inspect.MetricSender {
	who := nameOf(from)
	out := inspect.MetricSender{Metric: namespace, Namespace: who.namespace, Name: who.name, Sort: who.sort}
	if who.sort == OfPod {
		out.Account = from.Pod.ServiceAccount
	}
	return out
}

// forgetLocked forgets one of the metrics: Go iterates over maps in a random order. What is pushed by
// new lines is remembered again.
func (p *Pushers) forgetLocked() {
	for key, pushed := range p.all {
		pushed.gone.Store(true)
		delete(p.all, key)
		return
	}
}

// EndNamespace forgets the metrics of a namespace, and its senders of other namespaces' metrics.
func (p *Pushers) EndNamespace(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, pushed := range p.all {
		if key.namespace != namespace {
			pushed.senders = slices.DeleteFunc(pushed.senders,
				func(s inspect.MetricSender) bool { return s.Namespace == namespace })
			pushed.full.Store(len(pushed.senders) == inspect.MetricSenders)
			continue
		}
		pushed.gone.Store(true)
		delete(p.all, key)
	}
}

// Each calls each for every remembered metric, with its senders. The senders are borrowed, and each must
// not call the record.
func (p *Pushers) Each(each func(namespace, name string, senders []inspect.MetricSender)) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, pushed := range p.all {
		each(key.namespace, key.name, pushed.senders)
	}
}

// Of returns the remembered senders of a metric, the newest first; empty namespace: of all namespaces.
func (p *Pushers) Of(namespace, name string) (all []inspect.MetricSender) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if namespace != "" {
		if pushed := p.all[metricName{namespace, name}]; pushed != nil {
			all = append(all, pushed.senders...)
		}
		return all
	}
	for key, pushed := range p.all {
		if key.name == name {
			all = append(all, pushed.senders...)
		}
	}
	slices.SortStableFunc(all, func(a, b inspect.MetricSender) int { return cmp.Compare(a.Metric, b.Metric) })
	return all
}
