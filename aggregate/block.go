package aggregate

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// Series live in blocks of 1,024, numbered from 0; a series' number is its block's times 1,024 plus its place.
// Blocks are made as they are needed and never given back; places are used again.
const (
	blockBits   = 10
	blockSeries = 1 << blockBits
	maxBlocks   = 1 << 14 // 16.7M series
	blockWords  = blockSeries / 64
)

type block struct {
	page *page // in the arena of blocks

	// history guards all that the roller notes of the block's series: pasts, logs, slots, identity at its end.
	// Writers take it only for what is pushed, was held or is dated. Held for one series' work at a time, or for a slice of the roller's.
	history sync.Mutex
	// rolled is the tick in which all of the block was last rolled, rolledAt the receiving time; guarded by history.
	rolled   uint32
	rolledAt time.Duration
	// saved is the tick from which on the store has not copied notes out; the store's alone.
	saved uint32

	series *[blockSeries]series // by itself: 32 KiB are a size that the heap gives out whole
	// bodies is nil until a series of the block needs one.
	bodies atomic.Pointer[[blockSeries]atomic.Pointer[body]]

	// unsaved marks series whose values the store has not copied out, unnamed those whose birth or death it has not.
	unsaved, unnamed bitmap
	// renamed is set when a series was born or died since the store last copied the block's names.
	renamed atomic.Bool
}

// page is what writers, the roller and the store touch of every series that changes, without pointers. What they need is here,
// side by side, and not with what is known of the series: that is a miss of the cache for each.
type page struct {
	dirty bitmap
	cells [blockSeries]cell
	// kinds are those of the series' entries, written as these are.
	kinds [blockSeries]metric.Kind
	// ttls are how long the series live without a sample, as ttl.go has it; 0: the default of their object.
	ttls [blockSeries]atomic.Uint32
	// nextEnd is a stamp before which no series ends by a time to live of its own; noEnd: none has one.
	nextEnd atomic.Uint32
}

// bitmap has a bit for each series of a block.
type bitmap [blockWords]atomic.Uint64

// mark sets a bit; where it is set already it writes nothing.
func (b *bitmap) mark(place uint32) {
	if word, bit := &b[place/64], uint64(1)<<(place%64); word.Load()&bit == 0 {
		word.Or(bit)
	}
}

func (b *bitmap) has(place uint32) bool { return b[place/64].Load()&(1<<(place%64)) != 0 }

// series is what is known of a series beside its value. What is no atomic is written by its creator before the
// cell's state publishes it.
type series struct {
	entry *entry
	// first and length are its labels, packed: a string in less memory.
	first  *byte
	length uint32
	born   uint32 // tick
	// aliases counts the aliases, so that a client with ever new orders of its tags cannot fill memory.
	aliases atomic.Uint32
}

func (s *series) setLabels(packed string) {
	s.first, s.length = unsafe.StringData(packed), uint32(len(packed))
}

func (s *series) packed() string { return unsafe.String(s.first, s.length) }

func (s *series) labels() metric.Labels { return metric.TrustPackedLabels(s.packed()) }

// ref names a series and its generation, so that a reader notices when its place was given to another.
type ref struct {
	number uint32
	state  uint32
}

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

func (b *block) body(place uint32) *body {
	bodies := b.bodies.Load()
	if bodies == nil {
		return nil
	}
	return bodies[place].Load()
}

// makeBody returns the body of a series, making it with f where there is none.
func (b *block) makeBody(place uint32, f func() *body) *body {
	bodies := b.bodies.Load()
	if bodies == nil {
		b.bodies.CompareAndSwap(nil, new([blockSeries]atomic.Pointer[body]))
		bodies = b.bodies.Load()
	}
	if made := bodies[place].Load(); made != nil {
		return made
	}
	bodies[place].CompareAndSwap(nil, f())
	return bodies[place].Load()
}

// blocks is the directory: it grows under its lock, everybody else only reads.
type blocks struct {
	at [maxBlocks]atomic.Pointer[block]
	// pages is where the blocks' pages lie, one behind the other.
	pages *memory.Arena

	mu   sync.Mutex
	made atomic.Uint32 // blocks that exist
	next uint32        // the first number never used
	free []uint32
}

const pageBytes = int(unsafe.Sizeof(page{}))

func (d *blocks) pageOf(number uint32) (*page, uint32) {
	return d.pageAt(number >> blockBits), number & (blockSeries - 1)
}

func (d *blocks) pageAt(index uint32) *page {
	return (*page)(unsafe.Add(d.pages.Base, uintptr(index)*uintptr(pageBytes)))
}

func (d *blocks) of(number uint32) (*block, uint32) {
	return d.at[number>>blockBits].Load(), number & (blockSeries - 1)
}

// take hands out a free number, a used one first. False: there is none.
func (d *blocks) take() (uint32, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.free); n > 0 {
		number := d.free[n-1]
		d.free = d.free[:n-1]
		return number, true
	}
	number := d.next
	if number>>blockBits == maxBlocks || !d.reachLocked(number>>blockBits) {
		return 0, false
	}
	d.next++
	return number, true
}

// reachLocked makes all blocks up to index. False: there is no memory for them.
func (d *blocks) reachLocked(index uint32) bool {
	if !d.pages.Grow((int(index) + 1) * pageBytes) {
		return false
	}
	for made := d.made.Load(); made <= index; made++ {
		d.pageAt(made).nextEnd.Store(noEnd)
		d.at[made].Store(&block{page: d.pageAt(made), series: new([blockSeries]series)})
		d.made.Store(made + 1)
	}
	return true
}

func (d *blocks) give(number uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, number)
}
