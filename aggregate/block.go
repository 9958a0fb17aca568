package aggregate

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/memory"
	"github.com/sluice-metrics/sluice/metric"
)

// Series live in blocks of 1,024, numbered from 0; a series' number is its block's times 1,024 plus its place.
// Blocks are made as they are needed and never given back; places are used again.
const maxBlocks = 1 << 14 // 16.7M series

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

	series *[kind.BlockSeries]series // by itself: 32 KiB are a size that the heap gives out whole
	// bodies is nil until a series of the block needs one.
	bodies kind.Bodies

	// unsaved marks series whose values the store has not copied out, unnamed those whose birth or death it has not.
	unsaved, unnamed kind.Bitmap
	// renamed is set when a series was born or died since the store last copied the block's names.
	renamed atomic.Bool
}

// page is what writers, the roller and the store touch of every series that changes, without pointers. What they need is here,
// side by side, and not with what is known of the series: that is a miss of the cache for each.
type page struct {
	dirty kind.Bitmap
	cells [kind.BlockSeries]kind.Cell
	// kinds are those of the series' entries, written as these are.
	kinds [kind.BlockSeries]metric.Kind
	// ttls are how long the series live without a sample, as ttl.go has it; 0: the default of their object.
	ttls [kind.BlockSeries]atomic.Uint32
	// nextEnd is a stamp before which no series ends by a time to live of its own; noEnd: none has one.
	nextEnd atomic.Uint32
}

// series is what is known of a series beside its value. What is no atomic is written by its creator before the
// cell's state publishes it.
type series struct {
	entry *index.Entry
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

func (b *block) body(place uint32) *kind.Body { return b.bodies.Of(place) }

// handle is what the kinds see of a series.
func (b *block) handle(place uint32) kind.Series {
	return kind.Series{Cell: &b.page.cells[place], Dirty: &b.page.dirty, Bodies: &b.bodies, Born: &b.series[place].born, Place: place}
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
	return d.pageAt(number >> kind.BlockBits), number & (kind.BlockSeries - 1)
}

func (d *blocks) pageAt(index uint32) *page {
	return (*page)(unsafe.Add(d.pages.Base, uintptr(index)*uintptr(pageBytes)))
}

func (d *blocks) of(number uint32) (*block, uint32) {
	return d.at[number>>kind.BlockBits].Load(), number & (kind.BlockSeries - 1)
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
	if number>>kind.BlockBits == maxBlocks || !d.reachLocked(number>>kind.BlockBits) {
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
		d.at[made].Store(&block{page: d.pageAt(made), series: new([kind.BlockSeries]series)})
		d.made.Store(made + 1)
	}
	return true
}

func (d *blocks) give(number uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, number)
}
