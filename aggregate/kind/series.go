package kind

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// Env is the part of a table that the kinds use.
type Env struct {
	Logs   *window.Logs
	Spans  []window.Span
	Timers timerLives
	Epochs memory.Epochs
	Clock  *window.Clock

	// SetSeed seeds the hashes of set members. The store saves it, so that restored members match
	// new ones. former is the seed before it, if the table adopted another (set_estimate.go).
	SetSeed atomic.Uint64
	former  atomic.Pointer[formerSeed]

	// Histograms makes timers keep the totals of their buckets.
	Histograms bool
	// Replicated is set if other origins may have series of the same identity.
	Replicated bool
	// EachTwin calls f for the series of the same identity at other origins, under the lock of the
	// twin's block.
	EachTwin func(h Series, f func(twin Series, from Elsewhere))
	// Moved is set once a replicated gauge has moved its value to a body: such gauges follow the
	// assignments of other origins.
	Moved atomic.Bool
	// NewestStamp is the newest stamp of a gauge that was restored, or that other origins have.
	NewestStamp atomic.Uint64

	BodyBytes atomic.Int64 // memory of bodies that are weighed, such as timers and sets
	// MayGrow reports whether state without a fixed size may grow.
	MayGrow func() bool
	// Left is the memory that state without a fixed size may still take.
	Left func() int64
}

// Weigh sets the accounted memory of a body.
func (e *Env) Weigh(body *Body, bytes int64) { e.account(body, bytes-body.bytes.Swap(bytes)) }

// account adds to what all bodies, and those of a share, take.
func (e *Env) account(body *Body, bytes int64) {
	e.BodyBytes.Add(bytes)
	if body.share != nil {
		body.share.Add(bytes)
	}
}

// Share makes the body of a new series count as one of a share.
func (h Series) Share(share *atomic.Int64) {
	if body := h.body(); body != nil && body.share == nil {
		body.share = share
		share.Add(body.bytes.Load())
	}
}

// idleLocked reports whether the newest entry of a series is older than every window.
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

// oldestTick returns the oldest tick that the units of the longest window reach.
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

// take accounts for growth of the body. It returns false, without accounting, if the body must not
// grow.
func (b Budget) take(bytes int64) bool {
	if !b.Env.MayGrow() {
		return false
	}
	if share := b.Body.share; share != nil && bytes > fair.More(share.Load(), b.Env.Left()) {
		return false
	}
	b.enter(bytes)
	return true
}

// enter accounts for growth without asking.
func (b Budget) enter(bytes int64) {
	b.Body.bytes.Add(bytes)
	b.Env.account(b.Body, bytes)
}

const (
	BlockBits   = 10
	BlockSeries = 1 << BlockBits
	BlockWords  = BlockSeries / 64
)

// Bitmap has a bit for each series of a block.
type Bitmap [BlockWords]atomic.Uint64

// Mark sets a bit. It doesn't write if the bit is set already, to keep the cache line shared.
func (b *Bitmap) Mark(place uint32) {
	if word, bit := &b[place/64], uint64(1)<<(place%64); word.Load()&bit == 0 {
		word.Or(bit)
	}
}

func (b *Bitmap) Has(place uint32) bool { return b[place/64].Load()&(1<<(place%64)) != 0 }

// Body is the state of a series beyond its cell. The kind decides which fields are set. Every body
// of a counter has a Fraction.
type Body struct {
	Fraction *fraction
	running  *running // of a counter with pushed running totals; guarded by the history lock
	stamped  *stamped
	Timer    *timer
	Set      *set
	former   atomic.Pointer[formerSet] // of a set, after the table adopted another seed

	// Rewritten is set when a timer or exact set gets samples older than its newest entry. The next
	// save must then replace the saved state. Guarded by the history lock. Histograms and estimated
	// sets mark the slots that changed instead.
	Rewritten bool

	bytes atomic.Int64  // accounted memory: as last weighed, plus growth since then
	share *atomic.Int64 // of all bodies of the namespace; nil: not shared. Set before the series is live
}

// Bodies holds the bodies of a block. Its table is allocated when the first series needs a body.
type Bodies struct {
	all atomic.Pointer[[BlockSeries]atomic.Pointer[Body]]
	// stamps are of the gauges of a replica (gauge_order.go); allocated for the first of them.
	stamps atomic.Pointer[stamps]
}

func (b *Bodies) Of(place uint32) *Body {
	all := b.all.Load()
	if all == nil {
		return nil
	}
	return all[place].Load()
}

// make returns the body of a series, and creates it with f if there is none.
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

// replace replaces the body of a series. Writers may use the former body until they are quiescent.
func (b *Bodies) replace(place uint32, body *Body) { b.all.Load()[place].Store(body) }

// Drop removes the body of a series.
func (b *Bodies) Drop(place uint32) { b.all.Load()[place].Store(nil) }

// Series is the kinds' view of one series.
type Series struct {
	Cell   *Cell
	Dirty  *Bitmap
	Bodies *Bodies
	Born   *uint32 // tick of the series' creation; guarded by the history lock
	Place  uint32  // index of the series in its block
}

func (h Series) body() *Body { return h.Bodies.Of(h.Place) }

func (h Series) makeBody(f func() *Body) *Body { return h.Bodies.make(h.Place, f) }

// arrived returns the approximate time at which the newest sample arrived. It needs no lock.
func (h Series) arrived(now window.Moment) time.Time {
	if h.Dirty.Has(h.Place) {
		return now.Wall
	}
	return now.DateOf(h.Cell.Seen.Load())
}

// NoteStartLocked notes when a series began: at its birth, or when its client's running total did.
func (r *Reader) NoteStartLocked(h Series, created uint32) {
	if r.created == 0 || created < r.created {
		r.created = created
	}
	body := h.body()
	if r.Kind != metric.Counter || body == nil {
		return
	}
	r.fell = r.fell || body.Fraction.fell
	if body.running != nil {
		r.restarted = max(r.restarted, body.running.started)
	}
}

// Start returns the time since which the totals of the series read count, and whether one has fallen
// by an increment below 0. A later start is a reset: the totals were 0 then. WithStart must be set.
func (r *Reader) Start() (since time.Time, fell bool) {
	if r.restarted != 0 {
		return time.Unix(0, r.restarted), r.fell
	}
	return time.Unix(int64(r.created), 0), r.fell
}

// Sum is an exact sum of counters' values.
type Sum struct {
	Whole    int64
	Fraction uint64 // billionths, less than FractionUnits
}

func (s *Sum) Add(whole int64, fraction uint64) {
	s.Whole += whole + int64(fraction/FractionUnits)
	s.Fraction += fraction % FractionUnits
	s.Whole += int64(s.Fraction / FractionUnits)
	s.Fraction %= FractionUnits
}

func (s Sum) plus(o Sum) Sum {
	s.Add(o.Whole, o.Fraction)
	return s
}

func (s Sum) minus(o Sum) Sum {
	if s.Fraction < o.Fraction {
		s.Whole--
		s.Fraction += FractionUnits
	}
	return Sum{s.Whole - o.Whole, s.Fraction - o.Fraction}
}

func (s Sum) below(o Sum) bool {
	return s.Whole < o.Whole || s.Whole == o.Whole && s.Fraction < o.Fraction
}

// maxPushed bounds a client's running total, so that the difference of any two is far below the
// rest of an int64 (see Cell.Add).
const maxPushed = 1 << 60

// quantiseTotal rounds a running total to billionths. It returns false for NaN and totals beyond
// maxPushed.
func quantiseTotal(s *metric.Sample) (total Sum, ok bool) {
	if s.Whole < -maxPushed || s.Whole > maxPushed || !(math.Abs(s.Fraction) < 1) {
		return Sum{}, false
	}
	whole, fraction := metric.SplitNanos(s.Fraction)
	return Sum{s.Whole + whole, uint64(fraction)}, true
}

// Summary returns the timers read so far as a summary: count and sum since the series' births, and
// quantiles over the window. A quantile is NaN if nothing was observed in the window, as
// Prometheus' clients write it. Of one timer with pushed quantiles, these are returned instead.
func (r *Reader) Summary(quantiles []float64, into *metric.Summary) {
	into.Count, into.Sum = r.observed, r.sum
	into.Quantiles = into.Quantiles[:0]
	if r.summaries > 0 {
		if r.Series == 1 {
			into.Quantiles = append(into.Quantiles, r.quantiles...)
		}
		return
	}
	for _, q := range quantiles {
		v := math.NaN()
		if r.Distribution.Total > 0 {
			v = r.Distribution.quantile(q)
		}
		into.Quantiles = append(into.Quantiles, metric.Quantile{Q: q, Value: v})
	}
}
