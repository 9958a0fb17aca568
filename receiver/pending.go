package receiver

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/ratelog"
)

// Pending holds the samples of which it is not known yet whose they are: a pod's address reaches the API some seconds
// after its first datagrams. What is held is in no series. Once its sender is known it is applied, in the order in
// which it came, or refused; after MaxAge it is refused. While the cluster cannot be seen nobody becomes known, so that
// time does not count, up to MaxBlindAge.
//
// Any number of goroutines call Hold and Known; they wait for each other only at one shard of senders. One goroutine,
// Run's, takes a sender out of its shard, tries its samples again without any lock, and puts back what is left. So
// a sample is either in a shard or in Run's hands, and settled once.
type Pending struct {
	config PendingConfig
	parts  PendingParts
	start  time.Time
	shards [pendingShards]pendingShard

	senders atomic.Int64
	bytes   atomic.Int64
	full    atomic.Uint64 // samples refused because there was no room
	expired atomic.Uint64 // samples refused because nobody became known

	known   addressSet
	fullLog ratelog.Limiter
	lateLog ratelog.Limiter
	sayLog  [metric.NumReasons]ratelog.Limiter // of samples that were refused when their sender was known
}

// PendingParts is what the held samples are tried on.
type PendingParts struct {
	// NewApplier makes an Applier that is not parked.
	NewApplier func() Applier
	Senders    Senders
	Logger     *slog.Logger
	// Explain says why a sample was refused for its sender; may be nil.
	Explain func(*metric.Sample) string
	// Blind says since when, and why, it cannot be known who has an address. Not blind: it can; nil: always.
	Blind func() (since time.Time, why string, blind bool)
}

const pendingShards = 16

type pendingShard struct {
	mu      sync.Mutex // guards what follows, and the senders while they are in it
	senders map[senderKey]*heldSender
	trying  *senderKey // whose samples Run has in its hands
	closed  bool
	scratch []byte
}

// senderKey tells apart of whom something is held: one address by its holders.
type senderKey struct {
	address netip.Addr
	key     uint64
}

func keyOf(s *metric.Sender) senderKey {
	if s == nil {
		return senderKey{}
	}
	return senderKey{s.Address, s.Key}
}

// NewPending makes an empty room of a valid configuration. Run must run for what is held to be settled.
func NewPending(c PendingConfig, parts PendingParts) *Pending {
	p := &Pending{config: c, parts: parts, start: time.Now()}
	p.known.wake = make(chan struct{}, 1)
	for i := range p.shards {
		p.shards[i].senders = map[senderKey]*heldSender{}
	}
	return p
}

// Hold keeps a copy of a sample that was answered metric.Pending, and enters it in the account. False: there is no
// room, or nobody tries any more; the caller refuses the sample with metric.Identity. It is for nil too: no room at all.
func (p *Pending) Hold(s *metric.Sample, a *Account) bool {
	if p == nil {
		return false
	}
	key := keyOf(s.Sender)
	shard := p.shard(key)
	shard.mu.Lock()
	bound := p.holdLocked(shard, key, s, a)
	shard.mu.Unlock()
	if bound == "" {
		return true
	}
	p.full.Add(1)
	if bound == stopped {
		return false
	}
	if suppressed, ok := p.fullLog.Allow(); ok {
		p.parts.Logger.Warn("a sample was refused: it is not known yet whose it is, and no more can be held",
			"bound", bound, "from", sentFrom(s.Sender), "suppressed", suppressed)
	}
	return false
}

// stopped is the bound of a room that is closed.
const stopped = "stopped"

// holdLocked returns the bound that a sample would pass; empty: it is held.
func (p *Pending) holdLocked(shard *pendingShard, key senderKey, s *metric.Sample, a *Account) (bound string) {
	if shard.closed {
		return stopped
	}
	h := shard.senders[key]
	if h == nil {
		if p.senders.Add(1) > int64(p.config.MaxSenders) {
			p.senders.Add(-1)
			return "maxSenders"
		}
		h = newHeldSender(s.Sender)
		p.bytes.Add(h.bytes)
		shard.senders[key] = h
	}
	shard.scratch = appendLine(shard.scratch[:0], s)
	line, known := h.find(a, shard.scratch)
	at := time.Since(p.start)
	if !known || !h.merge(line, s, at) {
		cost := int64(cellBytes)
		if !known {
			cost += lineBytes + int64(len(shard.scratch))
		}
		if bound := p.take(h, cost); bound != "" {
			p.dropIfEmptyLocked(shard, key, h)
			return bound
		}
		if !known {
			line = h.addLine(a, append([]byte(nil), shard.scratch...))
		}
		h.addCell(cell{line: line, n: 1, at: at, whole: s.Whole, fraction: s.Fraction})
	}
	a.hold()
	return ""
}

// take charges what a sender is about to hold.
func (p *Pending) take(h *heldSender, cost int64) (bound string) {
	if h.bytes+cost > p.config.MaxBytesPerSender {
		return "maxBytesPerSender"
	}
	if p.bytes.Add(cost) > p.config.MaxBytes {
		p.bytes.Add(-cost)
		return "maxBytes"
	}
	h.bytes += cost
	return ""
}

func (p *Pending) dropIfEmptyLocked(shard *pendingShard, key senderKey, h *heldSender) {
	if len(h.cells) == 0 {
		delete(shard.senders, key)
		p.release(h)
	}
}

// release gives back what a sender took.
func (p *Pending) release(h *heldSender) {
	p.bytes.Add(-h.bytes)
	p.senders.Add(-1)
}

func (p *Pending) shard(key senderKey) *pendingShard { return &p.shards[key.key%pendingShards] }

// Known says that it is known now who has the addresses. It only makes a note of those of which something is held.
func (p *Pending) Known(addresses ...netip.Addr) {
	for _, a := range addresses {
		if p.senders.Load() == 0 {
			return
		}
		a = a.Unmap().WithZone("")
		key := senderKey{a, addressKey(a)}
		shard := p.shard(key)
		shard.mu.Lock()
		_, held := shard.senders[key]
		held = held || shard.trying != nil && *shard.trying == key // may have been judged just before it was known
		shard.mu.Unlock()
		if held {
			p.known.add(key)
		}
	}
}

// Run tries what is held until ctx ends; then it tries once more, and refuses the rest and whatever is brought later.
func (p *Pending) Run(ctx context.Context) error {
	r := &retrial{pending: p, applier: p.parts.NewApplier()}
	defer r.applier.Close()
	r.applier.Offline()
	ticker := time.NewTicker(p.config.RetryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			r.last = true
			p.close()
			r.all()
			p.known.take()
			return nil
		case <-p.known.wake:
			r.some(p.known.take())
		case <-ticker.C:
			r.all()
		}
	}
}

func (p *Pending) close() {
	for i := range p.shards {
		p.shards[i].mu.Lock()
		p.shards[i].closed = true
		p.shards[i].mu.Unlock()
	}
}

// addressSet is what Known has noted and Run has not looked at yet.
type addressSet struct {
	wake chan struct{} // has room for one: more wake-ups than one say nothing more
	mu   sync.Mutex
	keys map[senderKey]struct{}
}

func (s *addressSet) add(key senderKey) {
	s.mu.Lock()
	if s.keys == nil {
		s.keys = map[senderKey]struct{}{}
	}
	s.keys[key] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *addressSet) take() map[senderKey]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keys
	s.keys = nil
	return keys
}

// sentFrom is how a log names a sender.
func sentFrom(s *metric.Sender) string {
	if s == nil || !s.Address.IsValid() {
		return "unix"
	}
	return s.Address.String()
}
