package pending

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// Buffer holds pending samples. They are part of no series. Once the sender is known, they are
// applied in the order of their arrival, or rejected. After MaxAge they are rejected. While the API
// server does not answer, no sender becomes known, so that time does not count, up to MaxBlindAge.
//
// Any number of goroutines call Hold and Known; two of them contend only for one shard of senders.
// The goroutine of Run takes a sender out of its shard, retries the sender's samples without any
// lock, and puts the rest back. So each sample is either in a shard or in Run's hands, and is
// settled once.
type Buffer struct {
	config Config
	parts  Parts
	start  time.Time
	shards [numShards]senderShard

	room    room
	full    atomic.Uint64 // samples rejected because a limit was reached
	expired atomic.Uint64 // samples rejected because their sender did not become known

	known      addressSet
	fullLog    ratelog.Limiter
	expiredLog ratelog.Limiter
	rejectLog  [metric.NumReasons]ratelog.Limiter // samples rejected when their sender was known
}

// Parts are the dependencies of a Buffer.
type Parts struct {
	// NewApplier makes an Applier that is online.
	NewApplier func() Applier
	Senders    Senders
	Logger     *slog.Logger
	// Explain says why a sample was rejected; empty: the reason says all. It may be nil. It is
	// called for few of the rejected samples.
	Explain func(metric.Reason, *metric.Sample) string
	// Rejections remembers rejected samples for lists; may be nil.
	Rejections *record.Rejections
	// Blind reports whether the cluster view lacks the API server, since when and why. Nil: never.
	Blind func() (since time.Time, why string, blind bool)
}

// Applier is one goroutine's path into the table. It is not safe for concurrent use.
//
// The table reuses memory only after every Applier has passed a batch boundary. An Applier that
// neither quiesces nor goes offline delays that for all.
type Applier interface {
	// Apply applies one sample, or returns the reason to reject it. For a known series it neither
	// blocks nor allocates. It retains none of the sample's bytes.
	Apply(*metric.Sample) metric.Reason
	// Quiesce marks a batch boundary. Call it after each batch of datagrams or lines.
	Quiesce()
	// Offline must be called before blocking for longer than a few milliseconds, and Online before
	// the next Apply. A new Applier is online.
	Offline()
	Online()
	// Close gives the Applier up, online or offline.
	Close()
}

// Senders looks up the holder of an address (receiver.Senders). Nil: unknown.
type Senders interface {
	Sender(netip.Addr) *metric.Sender
}

const numShards = 16

type senderShard struct {
	mu      sync.Mutex // guards the fields below, and the senders in the map
	senders map[senderKey]*heldSender
	trying  *heldSender // whose samples Run is retrying
	closed  bool
	scratch []byte
}

func (s *senderShard) isTrying(key senderKey) bool {
	return s.trying != nil && s.trying.key() == key
}

// senderKey distinguishes the holders of an address.
type senderKey struct {
	address netip.Addr
	key     uint64
}

func (h *heldSender) key() senderKey {
	if h.unnamed {
		return senderKey{}
	}
	return keyOf(&h.sender)
}

func keyOf(s *metric.Sender) senderKey {
	if s == nil {
		return senderKey{}
	}
	return senderKey{s.Address, s.Key}
}

// New makes an empty Buffer of a valid configuration. Run must run for samples to be settled.
func New(c Config, parts Parts) *Buffer {
	p := &Buffer{config: c, parts: parts, start: time.Now(), room: room{maxBytes: c.MaxBytes, maxSenders: c.MaxSenders}}
	p.known.wake = make(chan struct{}, 1)
	for i := range p.shards {
		p.shards[i].senders = map[senderKey]*heldSender{}
	}
	return p
}

// Hold keeps a copy of a sample that the table answered with metric.Pending, and counts it in the
// account. It returns false if a limit is reached or Run has ended: the caller rejects the sample
// with metric.Identity. A nil Buffer holds nothing.
func (p *Buffer) Hold(s *metric.Sample, a *ledger.Account) bool {
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
		p.parts.Logger.Warn("sample rejected: the sender is unknown, and a limit of pending samples is reached",
			"limit", bound, "from", s.Sender.String(), "suppressed", suppressed)
	}
	return false
}

// stopped is the limit of a Buffer whose Run has ended.
const stopped = "stopped"

// holdLocked returns the limit that the sample would exceed, or an empty string: the sample is
// held.
func (p *Buffer) holdLocked(shard *senderShard, key senderKey, s *metric.Sample, a *ledger.Account) (bound string) {
	if shard.closed {
		return stopped
	}
	h := shard.senders[key]
	if h == nil {
		if bound := p.room.takeSender(s.Sender.Namespace()); bound != "" {
			return bound
		}
		h = newHeldSender(s.Sender)
		if shard.isTrying(key) {
			h.trying = shard.trying.bytes
		}
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
	a.Hold()
	return ""
}

// take charges the memory that a sender is about to take.
func (p *Buffer) take(h *heldSender, cost int64) (bound string) {
	if h.trying+h.bytes+cost > p.config.MaxBytesPerSender {
		return "maxBytesPerSender"
	}
	if bound := p.room.takeBytes(h.sender.Namespace(), cost); bound != "" {
		return bound
	}
	h.bytes += cost
	return ""
}

func (p *Buffer) dropIfEmptyLocked(shard *senderShard, key senderKey, h *heldSender) {
	if len(h.cells) == 0 {
		delete(shard.senders, key)
		p.release(h)
	}
}

// release gives back the memory of a sender.
func (p *Buffer) release(h *heldSender) {
	p.room.add(h.sender.Namespace(), -h.bytes, -1)
}

func (p *Buffer) shard(key senderKey) *senderShard { return &p.shards[key.key%numShards] }

// Known reports that the holders of the addresses have become known. It only wakes Run, for
// addresses with pending samples.
func (p *Buffer) Known(addresses ...netip.Addr) {
	for _, a := range addresses {
		if _, senders := p.room.held(); senders == 0 {
			return
		}
		a = a.Unmap().WithZone("")
		key := senderKey{a, AddressKey(a)}
		shard := p.shard(key)
		shard.mu.Lock()
		_, held := shard.senders[key]
		// Run may have looked the sender up just before it became known.
		held = held || shard.isTrying(key)
		shard.mu.Unlock()
		if held {
			p.known.add(key)
		}
	}
}

// Run retries samples until ctx ends. Then it retries once more, and rejects the rest and all later
// ones.
func (p *Buffer) Run(ctx context.Context) error {
	r := &retrier{pending: p, applier: p.parts.NewApplier()}
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

func (p *Buffer) close() {
	for i := range p.shards {
		p.shards[i].mu.Lock()
		p.shards[i].closed = true
		p.shards[i].mu.Unlock()
	}
}

// addressSet holds the senders that Known reported and that Run has not retried yet.
type addressSet struct {
	wake chan struct{} // of capacity one: further wake-ups add nothing
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
