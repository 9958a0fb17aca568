package record

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// maxSenders bounds the remembered senders, about 250 bytes each.
const maxSenders = 16384

// Senders remembers who pushes. The table tells it once per new line, HTTP push once per request.
// Any goroutine may call its methods. The nil Senders remembers nothing.
type Senders struct {
	// known finds senders that were heard lately, by their key, without a lock. Senders of equal
	// low bits share a slot.
	known [1 << 12]atomic.Pointer[sender]
	max   int

	mu  sync.Mutex
	all map[name]*sender
}

// sender is an entry. The atomics are written without the lock.
type sender struct {
	name
	key      uint64        // of the metric.Sender last heard
	heard    atomic.Int64  // Unix nanoseconds
	rejected atomic.Uint64 // samples
	lines    atomic.Uint32 // new ones
	external atomic.Bool   // it pushed an external metric
	forwards atomic.Bool   // it pushed a metric of another object
	gone     atomic.Bool   // the entry was forgotten
}

// name identifies a sender for people.
type name struct{ namespace, name, sort string }

// Sorts of senders.
const (
	OfPod     = "pod"
	OfAccount = "account"
	OfAddress = "address"
)

// nameOf names a sender: by its credential, which alone decides what it may do, or as a pod, or by
// its address.
func nameOf(s *metric.Sender) name {
	switch {
	case s == nil:
		return name{}
	case s.Principal != nil && s.Principal.Name != "":
		return name{s.Principal.Namespace, s.Principal.Name, OfAccount}
	case s.Principal != nil:
		return name{"", s.Principal.User, OfAccount}
	case s.Pod != nil:
		return name{s.Pod.Namespace, s.Pod.Name, OfPod}
	}
	return name{"", s.String(), OfAddress}
}

// NewSenders returns an empty record.
func NewSenders() *Senders { return &Senders{max: maxSenders, all: map[name]*sender{}} }

// Heard notes that a sender pushed just now. A nil sender is unknown, and not remembered.
func (s *Senders) Heard(from *metric.Sender) {
	if s != nil && from != nil {
		s.find(from).heard.Store(time.Now().UnixNano())
	}
}

// HeardLine is Heard for a new line. Of a known sender it reads the clock for one of linesPerClock
// lines: new lines come by the hundred thousand when a cluster starts.
func (s *Senders) HeardLine(from *metric.Sender) {
	if s == nil || from == nil {
		return
	}
	if sender := s.find(from); sender.lines.Add(1)%linesPerClock == 1 {
		sender.heard.Store(time.Now().UnixNano())
	}
}

const linesPerClock = 16

// Described notes what a sender's new line describes. From then on its known lines may be of a series that
// others push as well.
func (s *Senders) Described(from *metric.Sender, o *metric.Object) {
	if s == nil || from == nil || from.Principal == nil && from.Pod != nil && o.Resource == "pods" &&
		o.UID == from.Pod.UID {
		return
	}
	flag := &s.find(from).forwards
	if o.External() {
		flag = &s.find(from).external
	}
	if !flag.Load() { // the cache line stays shared
		flag.Store(true)
	}
}

// reject notes that samples of a sender were rejected.
func (s *Senders) reject(from *metric.Sender, n uint64) {
	if s == nil || from == nil {
		return
	}
	sender := s.find(from)
	sender.rejected.Add(n)
	sender.heard.Store(time.Now().UnixNano())
}

// find returns the entry of a sender.
func (s *Senders) find(from *metric.Sender) *sender {
	key := from.Key
	slot := &s.known[key%uint64(len(s.known))]
	if one := slot.Load(); one != nil && one.key == key && !one.gone.Load() {
		return one
	}
	one := s.enter(nameOf(from), key)
	slot.Store(one)
	return one
}

// enter returns the entry of a name, and makes it if necessary. A sender that got a new key, such as
// a pod with another address, gets a new entry with what the old one counted.
func (s *Senders) enter(n name, key uint64) *sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.all[n]
	if before != nil && before.key == key {
		return before
	}
	one := &sender{name: n, key: key}
	one.heard.Store(time.Now().UnixNano())
	if before != nil {
		one.rejected.Store(before.rejected.Load())
		one.external.Store(before.external.Load())
		one.forwards.Store(before.forwards.Load())
		before.gone.Store(true)
	} else if len(s.all) >= s.max {
		s.forgetLocked()
	}
	s.all[n] = one
	return one
}

// forgetLocked forgets one of the senders not heard for longest: the oldest of some chosen at random.
func (s *Senders) forgetLocked() {
	const some = 16
	var oldest *sender
	seen := 0
	for _, one := range s.all { // Go iterates over maps in a random order
		if oldest == nil || one.heard.Load() < oldest.heard.Load() {
			oldest = one
		}
		if seen++; seen == some {
			break
		}
	}
	oldest.gone.Store(true)
	delete(s.all, oldest.name)
}

// EndNamespace forgets the senders of a namespace.
func (s *Senders) EndNamespace(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, sender := range s.all {
		if n.namespace == namespace {
			sender.gone.Store(true)
			delete(s.all, n)
		}
	}
}

// Sender is a remembered sender.
type Sender struct {
	inspect.Sender
	// External and Forwards are set if it pushed external metrics, and metrics of other objects.
	External, Forwards bool
}

// All returns the remembered senders, in no order.
func (s *Senders) All() []Sender {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Sender, 0, len(s.all))
	for _, sender := range s.all {
		all = append(all, Sender{inspect.Sender{Namespace: sender.namespace, Name: sender.name.name, Sort: sender.sort,
			Rejected: sender.rejected.Load(), LastHeard: time.Unix(0,
				sender.heard.Load()).UTC()}, sender.external.Load(), sender.forwards.Load()})
	}
	return all
}
