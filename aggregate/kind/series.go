package kind

import (
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Env is the part of a table that the kinds use.
type Env struct {
	Logs   *window.Logs
	Spans  []window.Span
	Timers timerLives
	Epochs memory.Epochs
	Clock  *window.Clock

	// SetSeed seeds the hashes of set members. The store saves it, so that restored members match
	// new ones.
	SetSeed uint64

	BodyBytes atomic.Int64 // of timers and sets, as of their last record
	// MayGrow reports whether state without a fixed size may grow.
	MayGrow func() bool
}

// Weigh accounts for the memory of a body, which now takes so many bytes.
func (e *Env) Weigh(body *Body, bytes int64) {
	e.BodyBytes.Add(bytes - body.bytes.Swap(bytes))
}

// idleLocked reports whether all of a series is older than every window.
func (e *Env) idleLocked(h Series, now uint32) bool {
	stamp := h.Cell.History.Stamp
	return stamp != 0 && stamp < e.oldestTick(now)
}

// FreeLogs frees the history logs of a series.
func (e *Env) FreeLogs(h Series) {
	h.Cell.History.FreeLog(e.Logs)
	if body := h.body(); body != nil && body.Fraction != nil {
		body.Fraction.History.FreeLog(e.Logs)
	}
}

// oldestTick is the tick before which no window begins.
func (e *Env) oldestTick(now uint32) uint32 {
	longest := e.Spans[len(e.Spans)-1]
	reach := longest.Stride * uint32(longest.Slots)
	return now - min(now, reach)
}

// Budget grants memory to a body before it grows.
type Budget struct {
	Env  *Env
	Body *Body
}

// take reports whether the body may grow by some bytes, and accounts for them.
func (b Budget) take(bytes int64) bool {
	if !b.Env.MayGrow() {
		return false
	}
	b.enter(bytes)
	return true
}

func (b Budget) enter(bytes int64) {
	b.Body.bytes.Add(bytes)
	b.Env.BodyBytes.Add(bytes)
}

const (
	BlockBits   = 10
	BlockSeries = 1 << BlockBits
	BlockWords  = BlockSeries / 64
)

// Bitmap has a bit for each series of a block.
type Bitmap [BlockWords]atomic.Uint64

// Mark sets a bit; if the bit is set already, Mark writes nothing.
func (b *Bitmap) Mark(place uint32) {
	if word, bit := &b[place/64], uint64(1)<<(place%64); word.Load()&bit == 0 {
		word.Or(bit)
	}
}

func (b *Bitmap) Has(place uint32) bool { return b[place/64].Load()&(1<<(place%64)) != 0 }

// Body is the state of a series beyond its cell. The kind decides which fields are set; a counter
// has a fraction if it has any of them.
type Body struct {
	Fraction *fraction
	running  *running // of a counter whose client keeps the total; guarded by the history lock
	stamped  *stamped
	Timer    *timer
	Set      *set

	// Rewritten is set when a timer or a set gets samples older than its newest entry: its saved
	// state is to be replaced. Guarded by the history lock.
	Rewritten bool

	bytes atomic.Int64 // of timer, set or running total: as last weighed, and growth since
}

// Bodies holds the bodies of a block; all is nil until a series needs one.
type Bodies struct {
	all atomic.Pointer[[BlockSeries]atomic.Pointer[Body]]
}

func (b *Bodies) Of(place uint32) *Body {
	all := b.all.Load()
	if all == nil {
		return nil
	}
	return all[place].Load()
}

// make returns the body of a series; f makes it if there is none.
func (b *Bodies) make(place uint32, f func() *Body) *Body {
	all := b.all.Load()
	if all == nil {
		b.all.CompareAndSwap(nil, new([BlockSeries]atomic.Pointer[Body]))
		all = b.all.Load()
	}
	if made := all[place].Load(); made != nil {
		return made
	}
	all[place].CompareAndSwap(nil, f())
	return all[place].Load()
}

// Drop removes the body of a series.
func (b *Bodies) Drop(place uint32) { b.all.Load()[place].Store(nil) }

// Series is the kinds' view of one series.
type Series struct {
	Cell   *Cell
	Dirty  *Bitmap
	Bodies *Bodies
	Born   *uint32 // tick; guarded by the history lock
	Place  uint32
}

func (h Series) body() *Body { return h.Bodies.Of(h.Place) }

func (h Series) makeBody(f func() *Body) *Body { return h.Bodies.make(h.Place, f) }

// arrived is about when the newest sample arrived. The caller does not hold the history lock.
func (h Series) arrived(now window.Moment) time.Time {
	if h.Dirty.Has(h.Place) {
		return now.Wall
	}
	return now.DateOf(h.Cell.Seen.Load())
}
