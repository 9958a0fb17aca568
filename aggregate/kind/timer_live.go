package kind

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
)

// TimerLive is the part of a timer that writers update. It is in an arena, and the cell holds its
// number. It consists of cache lines. Each line has the bins, sum and extremes of some values, so
// an observation touches one line.
//
// It has two halves. Most timers see few distinct bins between two rolls; further bins go to the
// timer's tree. The second half is hot only while the first is emptied. So the second half is a
// single line, and writers touch the same memory after each roll.
//
//   - D1 A writer observes in a critical section (memory.WriterSlot), and reads which half is hot
//     within it; or it holds the history lock.
//   - D2 After a half became cold and each writer left its critical section, no writer is in that
//     half until it is hot again.
//   - D3 Only the holder of the history lock swaps the halves, and leaves the first one hot.
//   - D4 A place is empty or has one bin, until the half is emptied.
type TimerLive [TimerLines + 1]timerLine

// timerLine counts observations of some bins, with their sum and extremes.
type timerLine struct {
	sum      atomic.Uint64             // bits of a float64
	min, max atomic.Uint64             // bits of a float64; +Inf and -Inf without observations
	places   [LinePlaces]atomic.Uint32 // (bin+1) << binShift | observations; 0: empty
}

const (
	TimerLines = 8 // of the first half; a power of two
	LinePlaces = 10
	LineBins   = 8 // adjacent bins that share a line, each with a first place of its own
	timerBins  = TimerLines * LinePlaces
	binShift   = 19
	mostIn     = 1<<binShift - 1 // most observations in a place; further ones go to the tree
	liveBytes  = int64(unsafe.Sizeof(TimerLive{}))
)

// timerLives allocates live parts, numbered from 1.
type timerLives struct {
	memory.Pool
	epochs *memory.Epochs
}

// Open reserves addresses for up to limit live parts.
func (l *timerLives) Open(e *memory.Epochs, limit int) {
	l.epochs = e
	l.Pool.Open(int(liveBytes), limit)
}

// HotHalf is the bit of a timer's cell that selects the hot half. The bits above are the number of
// the live part; a cell of 0 has none.
const HotHalf = 1

func (l *timerLives) at(value uint64) *TimerLive {
	return (*TimerLive)(l.Pool.At(uint32(value >> 1)))
}

// Of returns the live part of a timer, or nil if it has none: nothing was observed yet, or only
// histograms were pushed.
func (l *timerLives) Of(c *Cell) *TimerLive {
	if value := c.Value.Load(); value != 0 {
		return l.at(value)
	}
	return nil
}

// make returns the live part of a timer, and creates it if there is none. It returns nil if there
// is no memory.
func (l *timerLives) make(c *Cell, budget Budget) *TimerLive {
	if live := l.Of(c); live != nil {
		return live
	}
	if !budget.take(liveBytes) {
		return nil
	}
	number := l.Alloc()
	if number == 0 {
		budget.enter(-liveBytes)
		return nil
	}
	value := uint64(number) << 1
	l.at(value).reset()
	if !c.Value.CompareAndSwap(0, value) {
		l.Free(number)
		budget.enter(-liveBytes)
	}
	return l.Of(c)
}

// Drop frees the live part of a removed timer.
func (l *timerLives) Drop(c *Cell) {
	if value := c.Value.Swap(0); value != 0 {
		l.Free(uint32(value >> 1))
	}
}

// swapHalves swaps the halves, waits until no writer is in the cold one, and returns the cold half.
func (l *timerLives) swapHalves(c *Cell) (cold uint32) {
	value := c.Value.Load()
	c.Value.Store(value ^ HotHalf)
	l.epochs.AwaitExits()
	return uint32(value & HotHalf)
}

// reset initializes a live part before it is published.
func (t *TimerLive) reset() {
	for i := range t {
		t[i].clear()
	}
}

// clear empties a line that no writer is in, without atomics.
func (l *timerLine) clear() {
	*(*plainLine)(unsafe.Pointer(l)) = plainLine{min: math.Inf(1), max: math.Inf(-1)}
}

// plainLine has the layout of a timerLine, for access without atomics while no writer is in the
// line.
type plainLine struct {
	sum, min, max float64
	places        [LinePlaces]uint32
}

// Line returns the line in which a bin is looked up first.
func (t *TimerLive) Line(hot uint32, bin int) *timerLine {
	if hot != 0 {
		return &t[TimerLines]
	}
	return &t[uint(bin)/LineBins%TimerLines]
}

// Observe counts one value in its bin. It returns false if the bin has no place.
func (t *TimerLive) Observe(hot uint32, bin int, v float64) bool {
	line := t.count(hot, bin, 1)
	if line == nil {
		return false
	}
	line.enter(v, v, v)
	return true
}

// count adds observations to a bin, in its line or the neighbouring one, and returns that line. It
// returns nil if the bin has no place.
func (t *TimerLive) count(hot uint32, bin int, n uint32) *timerLine {
	line := t.Line(hot, bin)
	if line.count(bin, n) {
		return line
	}
	if hot == 0 {
		if line = &t[uint(bin)/LineBins%TimerLines^1]; line.count(bin, n) {
			return line
		}
	}
	return nil
}

// count adds observations to a bin. It returns false if there is no place or the place is full.
func (l *timerLine) count(bin int, n uint32) bool {
	tag := uint32(bin + 1)
	i := uint(bin) % LineBins
	for range LinePlaces {
		at := &l.places[i]
		held := at.Load()
		for held == 0 {
			if at.CompareAndSwap(0, tag<<binShift|n) {
				return true
			}
			held = at.Load()
		}
		for held>>binShift == tag {
			if held&mostIn+n > mostIn {
				return false
			}
			if at.CompareAndSwap(held, held+n) {
				return true
			}
			held = at.Load()
		}
		if i++; i == LinePlaces {
			i = 0
		}
	}
	return false
}

// enter adds to the sum and the extremes.
func (l *timerLine) enter(sum, low, high float64) {
	addFloat(&l.sum, sum)
	lowerFloat(&l.min, low)
	raiseFloat(&l.max, high)
}

func addFloat(at *atomic.Uint64, v float64) {
	for {
		old := at.Load()
		if at.CompareAndSwap(old, math.Float64bits(finite(math.Float64frombits(old)+v))) {
			return
		}
	}
}

func lowerFloat(at *atomic.Uint64, v float64) {
	for old := at.Load(); v < math.Float64frombits(old); old = at.Load() {
		if at.CompareAndSwap(old, math.Float64bits(v)) {
			return
		}
	}
}

func raiseFloat(at *atomic.Uint64, v float64) {
	for old := at.Load(); v > math.Float64frombits(old); old = at.Load() {
		if at.CompareAndSwap(old, math.Float64bits(v)) {
			return
		}
	}
}

// take empties a half that no writer is in.
func (t *TimerLive) take(half uint32, d *distribution) {
	lines := t[:TimerLines]
	if half != 0 {
		lines = t[TimerLines:]
	}
	var full [timerBins]uint32
	n := 0
	for i := range lines {
		l := (*plainLine)(unsafe.Pointer(&lines[i]))
		for _, held := range l.places { // no branch: it would be mispredicted half of the time
			full[n] = held
			n += int((held | -held) >> 31)
		}
		d.extend(l.sum, l.min, l.max)
		lines[i].clear()
	}
	for _, held := range full[:n] {
		d.add(int(held>>binShift)-1, uint64(held&mostIn)*WeightUnits)
	}
}
