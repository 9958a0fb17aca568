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

// Epochs determines when unlinked memory is reusable: after each online writer has been quiescent
// since. This is quiescent-state-based reclamation (McKenney & Slingwine, "Read-Copy Update",
// 1998).
//
//   - E1 A writer looks up shared structures only between Online and Offline, and keeps nothing
//     that it found across Quiesce.
//   - E2 Memory is unlinked before Advance, and reused only after Quiesced returns at least that
//     epoch.
//
// So no writer holds memory that is reused. Either the writer was quiescent after the unlinking and
// can no longer find the memory, or it is offline and looks memory up only after a later Online.
type Epochs struct {
	current atomic.Uint64

	mu     sync.Mutex
	groups []*slotGroup
}

// slotGroup holds the slots of up to 64 writers. Idle connections may have thousands of writers, so
// a scan visits only the online ones.
type slotGroup struct {
	online atomic.Uint64 // a bit for each online writer
	slots  [64]*WriterSlot
}

// WriterSlot is the state of one writer: the newest epoch in which it was quiescent, and whether it
// is in a critical section, where it uses memory that the memory's owner may swap. The padding
// keeps slots on separate cache lines.
type WriterSlot struct {
	_        [64]byte
	seen     atomic.Uint64
	critical atomic.Uint64 // odd: in a critical section; each Enter and Exit adds one
	depth    int           // of nested critical sections; only the writer uses it
	group    *slotGroup
	bit      uint64
	_        [24]byte
}

const offline = math.MaxUint64

// Register adds a writer, which is online, and returns its slot.
func (e *Epochs) Register() *WriterSlot {
	e.mu.Lock()
	defer e.mu.Unlock()
	slot := new(WriterSlot)
	e.placeLocked(slot)
	slot.Online(e)
	return slot
}

// placeLocked adds a slot to a group.
func (e *Epochs) placeLocked(slot *WriterSlot) {
	for _, b := range e.groups {
		if i := slices.Index(b.slots[:], nil); i >= 0 {
			b.slots[i], slot.group, slot.bit = slot, b, 1<<i
			return
		}
	}
	e.groups = append(e.groups, new(slotGroup))
	e.placeLocked(slot)
}

// Unregister removes a writer.
func (e *Epochs) Unregister(slot *WriterSlot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slot.Offline()
	slot.group.slots[bits.TrailingZeros64(slot.bit)] = nil
}

// Advance starts a new epoch and returns it.
func (e *Epochs) Advance() uint64 { return e.current.Add(1) }

// Quiesced returns the newest epoch in which every online writer was quiescent.
func (e *Epochs) Quiesced() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	least := e.current.Load()
	for w := range e.onlineLocked() {
		least = min(least, w.seen.Load())
	}
	return least
}

// Quiesce marks a quiescent state: the writer holds nothing that it looked up before.
func (s *WriterSlot) Quiesce(e *Epochs) {
	if now := e.current.Load(); s.seen.Load() != now {
		s.seen.Store(now)
	}
}

// Offline marks a quiescent state until Online. The writer calls it before it waits, so that it
// does not delay reclamation.
func (s *WriterSlot) Offline() {
	s.seen.Store(offline)
	s.group.online.And(^s.bit)
}

// Online reverses Offline.
func (s *WriterSlot) Online(e *Epochs) {
	s.group.online.Or(s.bit)
	s.seen.Store(e.current.Load())
}

// onlineLocked yields the online writers. A writer that comes online later sees all writes before
// the call.
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

// Enter begins a short critical section: AwaitExits waits for it. Calls nest.
func (s *WriterSlot) Enter() {
	if s.depth++; s.depth == 1 {
		s.critical.Store(s.critical.Load() + 1)
	}
}

// Exit ends the critical section of the matching Enter.
func (s *WriterSlot) Exit() {
	if s.depth--; s.depth == 0 {
		s.critical.Store(s.critical.Load() + 1)
	}
}

// AwaitExits waits until every writer that is in a critical section has left it. A writer that
// enters later sees all writes before the call.
func (e *Epochs) AwaitExits() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.onlineLocked() {
		for was := w.critical.Load(); was&1 != 0 && w.critical.Load() == was; {
			runtime.Gosched()
		}
	}
}

// Locker returns the lock of the list of writers. The test of A1 holds it to show that writers
// never wait for it.
func (e *Epochs) Locker() sync.Locker { return &e.mu }
