package aggregate

import (
	"iter"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// epochs tells when memory that was unlinked can be used again: once every writer has passed a batch boundary
// since. (Quiescent-state-based reclamation; McKenney & Slingwine, "Read-Copy Update", 1998.)
//
//   - E1 A writer looks up shared structures only between Online and Offline, and keeps nothing it found across Quiesce.
//   - E2 Whoever unlinks does so before it calls advance, and reuses only after passed said so.
//
// Then no writer can hold what is reused: it either passed after the unlinking and could not find it any more,
// or it is parked and will look only after a later Online.
type epochs struct {
	current atomic.Uint64

	mu      sync.Mutex
	benches []*bench
}

// bench has the seats of some writers. Those of idle connections may be thousands: who waits for writers looks at those that are not parked.
type bench struct {
	present atomic.Uint64 // a bit for each seat whose writer is not parked
	seats   [64]*epochSeat
}

// epochSeat is one writer's place: the newest epoch that it has passed, and whether it is inside: at work on what somebody may turn
// (timerlive.go). The padding keeps seats apart.
type epochSeat struct {
	_      [64]byte
	seen   atomic.Uint64
	inside atomic.Uint64 // odd: inside; it grows with each coming and going
	depth  int           // how often goIn was called; the writer's own
	bench  *bench
	bit    uint64
	_      [24]byte
}

const parked = math.MaxUint64

func (e *epochs) join() *epochSeat {
	e.mu.Lock()
	defer e.mu.Unlock()
	seat := new(epochSeat)
	e.placeLocked(seat)
	seat.unpark(e)
	return seat
}

// placeLocked finds a seat's place on a bench.
func (e *epochs) placeLocked(seat *epochSeat) {
	for _, b := range e.benches {
		if i := slices.Index(b.seats[:], nil); i >= 0 {
			b.seats[i], seat.bench, seat.bit = seat, b, 1<<i
			return
		}
	}
	e.benches = append(e.benches, new(bench))
	e.placeLocked(seat)
}

func (e *epochs) leave(seat *epochSeat) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seat.park()
	seat.bench.seats[bits.TrailingZeros64(seat.bit)] = nil
}

// advance starts a new epoch and returns it.
func (e *epochs) advance() uint64 { return e.current.Add(1) }

// passed is the epoch that every writer has passed.
func (e *epochs) passed() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	least := e.current.Load()
	for w := range e.presentLocked() {
		least = min(least, w.seen.Load())
	}
	return least
}

func (s *epochSeat) pass(e *epochs) {
	if now := e.current.Load(); s.seen.Load() != now {
		s.seen.Store(now)
	}
}

func (s *epochSeat) park() {
	s.seen.Store(parked)
	s.bench.present.And(^s.bit)
}

func (s *epochSeat) unpark(e *epochs) {
	s.bench.present.Or(s.bit)
	s.seen.Store(e.current.Load())
}

// presentLocked yields who is not parked. One that unparks later sees what was written before the call.
func (e *epochs) presentLocked() iter.Seq[*epochSeat] {
	return func(yield func(*epochSeat) bool) {
		for _, b := range e.benches {
			for present := b.present.Load(); present != 0; present &= present - 1 {
				if !yield(b.seats[bits.TrailingZeros64(present)]) {
					return
				}
			}
		}
	}
}

// goIn goes inside, for a moment: whoever turns something waits for who is. It may be called again before goOut.
func (s *epochSeat) goIn() {
	if s.depth++; s.depth == 1 {
		s.inside.Store(s.inside.Load() + 1)
	}
}

func (s *epochSeat) goOut() {
	if s.depth--; s.depth == 0 {
		s.inside.Store(s.inside.Load() + 1)
	}
}

// awaitInside waits until every writer that is inside has left. One that comes later sees what was written before the call.
func (e *epochs) awaitInside() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.presentLocked() {
		for was := w.inside.Load(); was&1 != 0 && w.inside.Load() == was; {
			runtime.Gosched()
		}
	}
}
