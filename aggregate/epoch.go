package aggregate

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// epochs tells when memory that was unlinked can be used again: once every writer has passed a batch boundary
// since. (Quiescent-state-based reclamation; McKenney & Slingwine, "Read-Copy Update", 1998.)
//
//   - E1 A writer looks up shared structures only between Unpark and Park, and keeps nothing it found across Pass.
//   - E2 Whoever unlinks does so before it calls advance, and reuses only after passed said so.
//
// Then no writer can hold what is reused: it either passed after the unlinking and could not find it any more,
// or it is parked and will look only after a later Unpark.
type epochs struct {
	current atomic.Uint64

	mu      sync.Mutex
	writers []*epochSeat
}

// epochSeat is one writer's place: the newest epoch that it has passed, and whether it is inside: at work on what somebody may turn
// (timerlive.go). The padding keeps seats apart.
type epochSeat struct {
	_      [64]byte
	seen   atomic.Uint64
	inside atomic.Uint64 // odd: inside; it grows with each coming and going
	depth  int           // how often enter was called; the writer's own
	_      [40]byte
}

const parked = math.MaxUint64

func (e *epochs) join() *epochSeat {
	e.mu.Lock()
	defer e.mu.Unlock()
	seat := new(epochSeat)
	seat.seen.Store(e.current.Load())
	e.writers = append(e.writers, seat)
	return seat
}

func (e *epochs) leave(seat *epochSeat) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, w := range e.writers {
		if w == seat {
			e.writers[i] = e.writers[len(e.writers)-1]
			e.writers = e.writers[:len(e.writers)-1]
			return
		}
	}
}

// advance starts a new epoch and returns it.
func (e *epochs) advance() uint64 { return e.current.Add(1) }

// passed is the epoch that every writer has passed.
func (e *epochs) passed() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	least := e.current.Load()
	for _, w := range e.writers {
		least = min(least, w.seen.Load())
	}
	return least
}

func (s *epochSeat) pass(e *epochs) {
	if now := e.current.Load(); s.seen.Load() != now {
		s.seen.Store(now)
	}
}

func (s *epochSeat) park() { s.seen.Store(parked) }

func (s *epochSeat) unpark(e *epochs) { s.seen.Store(e.current.Load()) }

// enter goes inside, for a moment: whoever turns something waits for who is. It may be called again before leave.
func (s *epochSeat) enter() {
	if s.depth++; s.depth == 1 {
		s.inside.Store(s.inside.Load() + 1)
	}
}

func (s *epochSeat) leave() {
	if s.depth--; s.depth == 0 {
		s.inside.Store(s.inside.Load() + 1)
	}
}

// awaitInside waits until every writer that is inside has left. One that comes later sees what was written before the call.
func (e *epochs) awaitInside() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.writers {
		for was := w.inside.Load(); was&1 != 0 && w.inside.Load() == was; {
			runtime.Gosched()
		}
	}
}
