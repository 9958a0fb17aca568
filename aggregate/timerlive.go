package aggregate

import (
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// timerLive is what writers touch of a timer. It lies in an arena, and the timer's cell has its number. What is touched together shares
// lines: an observation that finds its bin's place at once touches the first line and that of the place. A test holds it.
//
// It has two halves, each with its own sums and a hash table of bins: most of what comes between two rolls has few that differ.
// What finds no place there goes to the timer's tree. The second half is hot only while the first is emptied, so it is small, and
// what writers touch the rest of the time is the same, roll after roll.
//
//   - D1 A writer registers by adding to started, which tells it the hot half as well, and ends by adding to that half's done.
//   - D2 done of the cold half equals all that started once nobody is left in it: what is carried over makes up for
//     the observations of the halves' earlier turns. Both count modulo 2^31.
//   - D3 Only the holder of the history lock turns the halves, and leaves the first one hot.
//   - D4 A place of the table is empty or has one bin, until whoever turned the halves empties it.
type timerLive struct {
	started atomic.Uint32 // observations begun << 1 | the hot half
	done    [2]atomic.Uint32
	_       uint32
	sums    [2]timerSums

	bins [timerBins + sideBins]atomic.Uint32 // (bin+1) << binShift | observations; 0: empty. The first half's, then the second's
}

// timerSums is what goes with a half's bins.
type timerSums struct {
	sum      atomic.Uint64 // bits of a float64
	min, max atomic.Uint64 // likewise; +Inf and -Inf where there is nothing
}

const (
	timerBins = 96
	sideBins  = 16
	binProbes = 16
	binShift  = 19
	mostIn    = 1<<binShift - 1 // observations of a bin; beyond it, the tree takes them
	begunMask = 1<<31 - 1
	liveBytes = int64(unsafe.Sizeof(timerLive{}))
)

// timerLives is the memory of all live parts, numbered from 1.
type timerLives struct{ ringPool }

func (l *timerLives) open() { l.ringPool.open(int(liveBytes)) }

func (l *timerLives) at(number uint64) *timerLive { return (*timerLive)(l.ringPool.at(uint32(number))) }

// of is the live part of a timer; nil: nothing was observed yet, as where all comes in histograms.
func (l *timerLives) of(c *cell) *timerLive {
	if number := c.value.Load(); number != 0 {
		return l.at(number)
	}
	return nil
}

// make is the live part of a timer, made where there is none; nil: there is no room for it.
func (l *timerLives) make(c *cell, room budget) *timerLive {
	if live := l.of(c); live != nil {
		return live
	}
	if !room.take(liveBytes) {
		return nil
	}
	number := l.take()
	if number == 0 {
		room.enter(-liveBytes)
		return nil
	}
	l.at(uint64(number)).reset()
	if !c.value.CompareAndSwap(0, uint64(number)) {
		l.give(number)
		room.enter(-liveBytes)
	}
	return l.of(c)
}

// drop gives the live part back. Nobody finds the timer any more.
func (l *timerLives) drop(c *cell) {
	if number := c.value.Swap(0); number != 0 {
		l.give(uint32(number))
	}
}

// reset makes it as new. Nobody else has it.
func (t *timerLive) reset() {
	*t = timerLive{}
	for half := range t.sums {
		t.sums[half].empty()
	}
}

func (s *timerSums) empty() (sum, low, high float64) {
	sum = math.Float64frombits(s.sum.Load())
	low, high = math.Float64frombits(s.min.Load()), math.Float64frombits(s.max.Load())
	s.sum.Store(0)
	s.min.Store(math.Float64bits(math.Inf(1)))
	s.max.Store(math.Float64bits(math.Inf(-1)))
	return sum, low, high
}

// begin registers an observation, and tells the half to count it in.
func (t *timerLive) begin() (hot uint32) { return t.started.Add(2) & 1 }

// hot is the half that an observation would be counted in now.
func (t *timerLive) hot() uint32 { return t.started.Load() & 1 }

// observe counts one value in its bin. False: that has no place in the table.
func (t *timerLive) observe(bin int, v float64) bool {
	hot := t.begin()
	if !t.count(hot, bin, 1) {
		t.done[hot].Add(1)
		return false
	}
	t.enter(hot, v, v, v)
	return true
}

// count adds observations to the bin's place in the table. False: it has none, or is full.
func (t *timerLive) count(hot uint32, bin int, n uint32) bool {
	tag := uint32(bin + 1)
	for i := range binProbes {
		at := t.place(hot, bin+i)
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
	}
	return false
}

// place is where a bin is looked for first.
func (t *timerLive) place(hot uint32, bin int) *atomic.Uint32 {
	if hot == 0 {
		return &t.bins[uint(bin)%timerBins]
	}
	return &t.bins[timerBins+uint(bin)%sideBins]
}

// enter adds what goes with bins, and ends the observation.
func (t *timerLive) enter(hot uint32, sum, low, high float64) {
	s := &t.sums[hot]
	addFloat(&s.sum, sum)
	lowerFloat(&s.min, low)
	raiseFloat(&s.max, high)
	t.done[hot].Add(1)
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

// turn makes the other half the hot one, waits until no writer is left in the cold one, and returns that.
func (t *timerLive) turn() (cold uint32) {
	cold = t.hot()
	var begun uint32
	if cold == 0 {
		begun = t.started.Add(1) >> 1
	} else {
		begun = t.started.Add(^uint32(0)) >> 1
	}
	for t.done[cold].Load()&begunMask != begun {
		runtime.Gosched() // a writer is between its two additions
	}
	t.done[cold^1].Add(begun)
	t.done[cold].Store(0)
	return cold
}

// take empties a half. Nobody is in it, so what an atomic access costs can be saved.
func (t *timerLive) take(half uint32, d *distribution) {
	table := (*[timerBins + sideBins]uint32)(unsafe.Pointer(&t.bins))[:timerBins]
	if half != 0 {
		table = (*[timerBins + sideBins]uint32)(unsafe.Pointer(&t.bins))[timerBins:]
	}
	var full [timerBins]uint32
	n := 0
	for _, held := range table { // without a branch, which would be foreseen wrongly at every other place
		full[n] = held
		n += int((held | -held) >> 31)
	}
	for _, held := range full[:n] {
		d.add(int(held>>binShift)-1, uint64(held&mostIn)*weightUnits)
	}
	clear(table)
	d.extend(t.sums[half].empty())
}
