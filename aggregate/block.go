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

// A block has 1,024 places, each for one series. The number of a series is the number of its block
// times 1,024, plus its place. Blocks are never freed; places are reused.
const maxBlocks = 1 << 14 // 16.7M series

type block struct {
	page *page // in the arena of blocks

	// history guards histories, bodies and, when a series is removed, its identity. Writers take it
	// only for pre-aggregated, pending and dated samples. It is held while one series is processed,
	// or up to 64 in the roller and the store.
	history sync.Mutex
	// rolled is the tick in which the whole block was last rolled, rolledAt the receiving time;
	// guarded by history.
	rolled   uint32
	rolledAt time.Duration
	// recorded counts, for each 64 places, how often samples of some of them were recorded, and how often
	// their series ended: Watches learn from it of samples whose dirty bits they never saw. Written under
	// history.
	recorded [kind.BlockWords]atomic.Uint32
	// saved is the tick from which on history entries are not saved yet. The store's goroutine owns
	// it.
	saved uint32

	series *[kind.BlockSeries]series // 32 KiB: a size class of the heap
	bodies kind.Bodies               // of the series that need one

	// unsaved marks series with unsaved values; unnamed marks places with an unsaved birth or
	// death.
	unsaved, unnamed kind.Bitmap
	// renamed is set when a series is born or dies after the names of the block were saved.
	renamed atomic.Bool
	copied  bool // of a shadow; set before the first series

	feeds feedMarks
	// restored marks series that were restored, in a block that has marks of feeds (frames.go).
	restored kind.Bitmap
}

// page is the part of a block that writers, the roller and the store touch for every change. It has
// no pointers. It is separate from the identities to save cache misses.
type page struct {
	dirty kind.Bitmap
	cells [kind.BlockSeries]kind.Cell
	// kinds copies the kinds from the index entries. It is written with the identity.
	kinds [kind.BlockSeries]metric.Kind
	// created are the dates of the births, in Unix seconds. They stay when the machine's clock is set,
	// and across restarts. They are written with the identity, and later under the history lock.
	created [kind.BlockSeries]uint32
	// ttls are the lifetimes given by pushes, coded as in expiry.go; 0: the default.
	ttls [kind.BlockSeries]atomic.Uint32
	// nextEnd is a stamp before which no pushed lifetime ends; noEnd if the page has none.
	nextEnd atomic.Uint32
}

// series is the identity of a series. Its creator writes all but the atomics before the cell's
// state publishes them.
type series struct {
	entry *index.Entry
	// first and length are the packed labels, in less memory than a string.
	first  *byte
	length uint32
	born   uint32 // tick
	// bornMillis are the milliseconds of that tick before the birth; 0 after a restart.
	bornMillis uint32
	// aliases counts the series' aliases. It is bounded, so that a client that keeps reordering its
	// tags cannot fill memory. In a shadow, where no series has an alias, it is the state of the
	// series at its origin.
	aliases atomic.Uint32
}

func (s *series) setLabels(packed string) {
	s.first, s.length = unsafe.StringData(packed), uint32(len(packed))
}

func (s *series) packed() string { return unsafe.String(s.first, s.length) }

func (s *series) labels() metric.Labels { return metric.TrustPackedLabels(s.packed()) }

func (b *block) body(place uint32) *kind.Body { return b.bodies.Of(place) }

// handle returns the series at a place for package kind.
func (b *block) handle(place uint32) kind.Series {
	return kind.Series{Cell: &b.page.cells[place], Dirty: &b.page.dirty, Bodies: &b.bodies,
		Born: &b.series[place].born, Place: place}
}

// blocks is the directory of blocks. It grows under its lock; reads are lock-free.
type blocks struct {
	at [maxBlocks]atomic.Pointer[block]
	// pages is the memory of all pages, in order.
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

// take returns the number of a free place, or false if there is none.
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

// reachLocked makes all blocks up to index, or returns false if there is no memory.
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
