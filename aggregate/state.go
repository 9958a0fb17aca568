package aggregate

import (
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// env is the part of a table that the kinds use.
type env struct {
	logs   *window.Logs
	spans  []window.Span
	timers timerLives
	epochs memory.Epochs
	clock  *window.Clock

	// setSeed seeds the hashes of set members. It is kept by the store, for restored members must match new ones.
	setSeed uint64

	bodyBytes atomic.Int64 // of timers and sets, as of their last roll
	// mayGrow reports whether there is memory left for what has no fixed size.
	mayGrow func() bool
}

// weigh keeps account of a body's memory.
func (e *env) weigh(body *body, bytes int64) {
	e.bodyBytes.Add(bytes - body.bytes.Swap(bytes))
}

// idleLocked reports whether nothing of a series can be asked for any more.
func (e *env) idleLocked(h handle, now uint32) bool {
	stamp := h.cell.history.Stamp
	return stamp != 0 && stamp < e.oldestTick(now)
}

// freeLogs gives back the logs of a series.
func (e *env) freeLogs(h handle) {
	h.cell.history.FreeLog(e.logs)
	if body := h.body(); body != nil && body.fraction != nil {
		body.fraction.history.FreeLog(e.logs)
	}
}

// oldestTick is the tick before which nothing is asked for.
func (e *env) oldestTick(now uint32) uint32 {
	longest := e.spans[len(e.spans)-1]
	reach := longest.Stride * uint32(longest.Slots)
	return now - min(now, reach)
}

// budget is what a body asks before it grows.
type budget struct {
	env  *env
	body *body
}

// take reports whether the body may grow by some bytes, and enters them.
func (b budget) take(bytes int64) bool {
	if !b.env.mayGrow() {
		return false
	}
	b.enter(bytes)
	return true
}

func (b budget) enter(bytes int64) {
	b.body.bytes.Add(bytes)
	b.env.bodyBytes.Add(bytes)
}

const (
	blockBits   = 10
	blockSeries = 1 << blockBits
	blockWords  = blockSeries / 64
)

// bitmap has a bit for each series of a block.
type bitmap [blockWords]atomic.Uint64

// mark sets a bit; where it is set already it writes nothing.
func (b *bitmap) mark(place uint32) {
	if word, bit := &b[place/64], uint64(1)<<(place%64); word.Load()&bit == 0 {
		word.Or(bit)
	}
}

func (b *bitmap) has(place uint32) bool { return b[place/64].Load()&(1<<(place%64)) != 0 }

// body is what a series has beyond its cell. Which one is set follows from the kind; a counter has a fraction where it has any.
type body struct {
	fraction *fraction
	running  *running // of a counter whose client keeps the total; guarded by the history lock
	stamped  *stamped
	timer    *timer
	set      *set

	// rewritten is set where a timer or a set got what is older than its newest note: what was saved is to be replaced.
	// Guarded by the history lock.
	rewritten bool

	bytes atomic.Int64 // of timer, set or running total, as last weighed, and what they grew by since
}

// bodies are those of a block's series: nil until one of them needs one.
type bodies struct {
	all atomic.Pointer[[blockSeries]atomic.Pointer[body]]
}

func (b *bodies) of(place uint32) *body {
	all := b.all.Load()
	if all == nil {
		return nil
	}
	return all[place].Load()
}

// make returns the body of a series, making it with f where there is none.
func (b *bodies) make(place uint32, f func() *body) *body {
	all := b.all.Load()
	if all == nil {
		b.all.CompareAndSwap(nil, new([blockSeries]atomic.Pointer[body]))
		all = b.all.Load()
	}
	if made := all[place].Load(); made != nil {
		return made
	}
	all[place].CompareAndSwap(nil, f())
	return all[place].Load()
}

// drop removes the body of a series.
func (b *bodies) drop(place uint32) { b.all.Load()[place].Store(nil) }

// handle is a series as the kinds see it.
type handle struct {
	cell   *cell
	dirty  *bitmap
	bodies *bodies
	born   *uint32 // tick; guarded by the history lock
	place  uint32
}

func (h handle) body() *body { return h.bodies.of(h.place) }

func (h handle) makeBody(f func() *body) *body { return h.bodies.make(h.place, f) }

// arrived is about when the newest sample of a series arrived, for those who do not hold the history lock.
func (h handle) arrived(now window.Moment) time.Time {
	if h.dirty.has(h.place) {
		return now.Wall
	}
	return now.DateOf(h.cell.seen.Load())
}
