package memory

import (
	"iter"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Epochs tells when memory that was unlinked can be used again: once every writer has passed a batch boundary
// since. (Quiescent-state-based reclamation; McKenney & Slingwine, "Read-Copy Update", 1998.)
//
//   - E1 A writer looks up shared structures only between Online and Offline, and keeps nothing it found across Quiesce.
//   - E2 Whoever unlinks does so before it calls advance, and reuses only after passed said so.
//
// Then no writer can hold what is reused: it either passed after the unlinking and could not find it any more,
// or it is parked and will look only after a later Online.
type Epochs struct {
	current atomic.Uint64

	mu     sync.Mutex
	groups []*slotGroup
}

// slotGroup has the seats of some writers. Those of idle connections may be thousands: who waits for writers looks at those that are not parked.
type slotGroup struct {
	online atomic.Uint64 // a bit for each seat whose writer is not parked
	slots  [64]*WriterSlot
}

// WriterSlot is one writer's place: the newest epoch that it has passed, and whether it is inside: at work on what somebody may turn
// (timerlive.go). The padding keeps seats apart.
type WriterSlot struct {
	_        [64]byte
	seen     atomic.Uint64
	critical atomic.Uint64 // odd: inside; it grows with each coming and going
	depth    int           // how often goIn was called; the writer's own
	group    *slotGroup
	bit      uint64
	_        [24]byte
}

const offline = math.MaxUint64

func (e *Epochs) Register() *WriterSlot {
	e.mu.Lock()
	defer e.mu.Unlock()
	seat := new(WriterSlot)
	e.placeLocked(seat)
	seat.Online(e)
	return seat
}

// placeLocked finds a seat's place on a bench.
func (e *Epochs) placeLocked(seat *WriterSlot) {
	for _, b := range e.groups {
		if i := slices.Index(b.slots[:], nil); i >= 0 {
			b.slots[i], seat.group, seat.bit = seat, b, 1<<i
			return
		}
	}
	e.groups = append(e.groups, new(slotGroup))
	e.placeLocked(seat)
}

func (e *Epochs) Unregister(seat *WriterSlot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seat.Offline()
	seat.group.slots[bits.TrailingZeros64(seat.bit)] = nil
}

// Advance starts a new epoch and returns it.
func (e *Epochs) Advance() uint64 { return e.current.Add(1) }

// Quiesced is the epoch that every writer has passed.
func (e *Epochs) Quiesced() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	least := e.current.Load()
	for w := range e.onlineLocked() {
		least = min(least, w.seen.Load())
	}
	return least
}

func (s *WriterSlot) Quiesce(e *Epochs) {
	if now := e.current.Load(); s.seen.Load() != now {
		s.seen.Store(now)
	}
}

func (s *WriterSlot) Offline() {
	s.seen.Store(offline)
	s.group.online.And(^s.bit)
}

func (s *WriterSlot) Online(e *Epochs) {
	s.group.online.Or(s.bit)
	s.seen.Store(e.current.Load())
}

// onlineLocked yields who is not parked. One that unparks later sees what was written before the call.
func (e *Epochs) onlineLocked() iter.Seq[*WriterSlot] {
	return func(yield func(*WriterSlot) bool) {
		for _, b := range e.groups {
			for present := b.online.Load(); present != 0; present &= present - 1 {
				if !yield(b.slots[bits.TrailingZeros64(present)]) {
					return
				}
			}
		}
	}
}

// Enter goes inside, for a moment: whoever turns something waits for who is. It may be called again before goOut.
func (s *WriterSlot) Enter() {
	if s.depth++; s.depth == 1 {
		s.critical.Store(s.critical.Load() + 1)
	}
}

func (s *WriterSlot) Exit() {
	if s.depth--; s.depth == 0 {
		s.critical.Store(s.critical.Load() + 1)
	}
}

// AwaitExits waits until every writer that is inside has left. One that comes later sees what was written before the call.
func (e *Epochs) AwaitExits() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.onlineLocked() {
		for was := w.critical.Load(); was&1 != 0 && w.critical.Load() == was; {
			runtime.Gosched()
		}
	}
}

// Locker is the lock of the writers' list. The test of A1 holds it to show that writers never wait for it.
func (e *Epochs) Locker() sync.Locker { return &e.mu }
