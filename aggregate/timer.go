package aggregate

import (
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// timer is the body of a series of kind timer. Writers add to one half of its live part, with atomics only. Whoever holds
// the history lock takes out what is there: it makes the other half the hot one, waits until no writer is left in the
// cold one, and empties that. So bins, sum and extremes are of the same observations, and each is taken once.
// (The two halves are those of client_golang's histogram; a single one, read bin by bin while writers went on, gave
// counts and sums that were off by a hundred observations in half a million.)
//
//   - D1 A writer registers by adding to started, which tells it the hot half as well, and ends by adding to its done.
//   - D2 done of the cold half equals all that started once nobody is left in it: what is carried over makes up for
//     the observations of the halves' earlier turns.
//   - D3 Only the holder of the history lock turns the halves.
//
// Most of what comes between two rolls has few distinct bins: these lie in the half itself, in a small hash table, so that an
// observation touches three cache lines of one allocation. What finds no place there goes to a tree of two levels, whose nodes come into
// being by compare-and-swap.
//
//   - D4 A place of the table is empty or has one bin, until whoever turned the halves empties it.
type timer struct {
	live atomic.Pointer[timerLive] // nil: nothing was observed yet, as where all comes in histograms

	// past holds, per span, what came in each unit; guarded by the history lock.
	past *[maxWindows][]timerSlot
	// pushed is what came in histograms; nil: none did. Guarded by the history lock.
	pushed *pushed
}

// timerLive is what writers touch. What is touched together shares lines: a test holds it.
type timerLive struct {
	started atomic.Uint64 // the hot half << 63 | observations begun
	tree    atomic.Pointer[timerTree]
	_       [16]byte

	halves [2]timerHalf
}

type timerHalf struct {
	done     atomic.Uint64
	sum      atomic.Uint64 // bits of a float64
	min, max atomic.Uint64 // likewise; +Inf and -Inf where there is nothing

	bins [timerBins]atomic.Uint64 // (bin+1)<<binShift | weight; 0: empty
}

const (
	timerBins   = 64
	binShift    = 48
	weightMask  = 1<<binShift - 1
	binProbes   = 8
	mostInPlace = 1 << (binShift - 1) // of weight in a place; beyond it, the tree takes it
	mostAtOnce  = 1 << 40             // so many writers may add this much to a place that they found under that

	leafBins   = 16
	nodeLeaves = 16
	timerNodes = 28 // covers binCount; a test holds it
)

type timerTree [timerNodes]atomic.Pointer[timerNode]

type timerNode struct {
	leaves [nodeLeaves]atomic.Pointer[timerLeaf]
}

// timerLeaf holds the weights of neighbouring bins, for either half.
type timerLeaf [2][leafBins]atomic.Uint64

func newTimer() *timer {
	return &timer{past: new([maxWindows][]timerSlot)}
}

// alive is the timer's live part, made where there is none; nil: there is no room for it.
func (t *timer) alive(room budget) *timerLive {
	live := t.live.Load()
	if live != nil {
		return live
	}
	if !room.take(int64(unsafe.Sizeof(timerLive{}))) {
		return nil
	}
	live = new(timerLive)
	for i := range live.halves {
		live.halves[i].empty()
	}
	t.live.CompareAndSwap(nil, live)
	return t.live.Load()
}

func (h *timerHalf) empty() (sum, low, high float64) {
	sum = math.Float64frombits(h.sum.Swap(0))
	low = math.Float64frombits(h.min.Swap(math.Float64bits(math.Inf(1))))
	high = math.Float64frombits(h.max.Swap(math.Float64bits(math.Inf(-1))))
	return sum, low, high
}

// observe counts a value that stands for weight observations. False: it would have to grow, and may not.
func (t *timer) observe(v, weight float64, room budget) bool {
	live := t.alive(room)
	if live == nil {
		return false
	}
	hot := live.started.Add(1) >> 63
	half := &live.halves[hot]
	if !live.count(hot, binOf(v), uint64(math.RoundToEven(weight*weightUnits)), room) {
		half.done.Add(1)
		return false
	}
	half.enter(v*weight, v, v)
	return true
}

// count adds to a bin of a half. False: there is no room for it.
func (t *timerLive) count(hot uint64, bin int, units uint64, room budget) bool {
	if t.halves[hot].count(bin, units) {
		return true
	}
	leaf := t.leaf(bin, room)
	if leaf == nil {
		return false
	}
	leaf[hot][bin%leafBins].Add(units)
	return true
}

// count adds to the bin's place in the table. False: it has none.
func (h *timerHalf) count(bin int, units uint64) bool {
	if units >= mostAtOnce {
		return false
	}
	tag := uint64(bin+1) << binShift
	for i := range binProbes {
		at := &h.bins[(bin+i)%timerBins]
		held := at.Load()
		if held == 0 {
			if at.CompareAndSwap(0, tag|units) {
				return true
			}
			held = at.Load()
		}
		if held&^weightMask == tag {
			if held&weightMask >= mostInPlace {
				return false
			}
			at.Add(units)
			return true
		}
	}
	return false
}

// place is where a bin is looked for first.
func (h *timerHalf) place(bin int) *atomic.Uint64 { return &h.bins[bin%timerBins] }

// enter adds what goes with bins, and ends the observation.
func (h *timerHalf) enter(sum, low, high float64) {
	addFloat(&h.sum, sum)
	lowerFloat(&h.min, low)
	raiseFloat(&h.max, high)
	h.done.Add(1)
}

// takeOver observes what came to another timer since its last roll.
func (t *timer) takeOver(from *timer, room budget) {
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	d.reset()
	from.takeLocked(d)
	live := t.alive(room)
	if live == nil {
		return
	}
	hot := live.started.Add(1) >> 63
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			live.count(hot, bin, w, room)
		}
	}
	live.halves[hot].enter(d.sum, d.min, d.max)
}

const (
	treeBytes = timerNodes * 8
	nodeBytes = nodeLeaves * 8
	// leafBytes is a leaf, and a bound of what its bins take in the slots of both windows.
	leafBytes = 2*leafBins*8 + leafBins*2*2*(ticksPerWindow+1)
)

// leaf is the leaf of a bin, made where there is none; nil: there is no room for it.
func (t *timerLive) leaf(bin int, room budget) *timerLeaf {
	tree := t.tree.Load()
	if tree == nil {
		if !room.take(treeBytes) {
			return nil
		}
		t.tree.CompareAndSwap(nil, new(timerTree))
		tree = t.tree.Load()
	}
	at := &tree[bin/(leafBins*nodeLeaves)]
	node := at.Load()
	if node == nil {
		if !room.take(nodeBytes) {
			return nil
		}
		at.CompareAndSwap(nil, new(timerNode))
		node = at.Load()
	}
	up := &node.leaves[bin/leafBins%nodeLeaves]
	leaf := up.Load()
	if leaf == nil {
		if !room.take(leafBytes) {
			return nil
		}
		up.CompareAndSwap(nil, new(timerLeaf))
		leaf = up.Load()
	}
	return leaf
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

// takeLocked moves what came since it was last called into d.
func (t *timer) takeLocked(d *distribution) {
	live := t.live.Load()
	if live == nil {
		return
	}
	turned := live.started.Add(1 << 63)
	hot, begun := turned>>63, turned&(1<<63-1)
	cold := hot ^ 1
	for live.halves[cold].done.Load() != begun {
		runtime.Gosched() // a writer is between its two additions
	}
	live.halves[hot].done.Add(begun)
	live.halves[cold].done.Store(0)
	live.halves[cold].take(d)
	if tree := live.tree.Load(); tree != nil {
		tree.take(cold, d)
	}
	d.extend(live.halves[cold].empty())
}

// take empties the table. Nobody is in this half.
func (h *timerHalf) take(d *distribution) {
	for i := range h.bins {
		if held := h.bins[i].Load(); held != 0 {
			d.add(int(held>>binShift)-1, held&weightMask)
			h.bins[i].Store(0)
		}
	}
}

func (t *timerTree) take(half uint64, d *distribution) {
	for n := range t {
		node := t[n].Load()
		if node == nil {
			continue
		}
		for l := range node.leaves {
			if leaf := node.leaves[l].Load(); leaf != nil {
				leaf.take(half, (n*nodeLeaves+l)*leafBins, d)
			}
		}
	}
}

// count is how many nodes and leaves there are.
func (t *timerTree) count() (nodes, leaves int64) {
	if t == nil {
		return 0, 0
	}
	for n := range t {
		node := t[n].Load()
		if node == nil {
			continue
		}
		nodes++
		for l := range node.leaves {
			if node.leaves[l].Load() != nil {
				leaves++
			}
		}
	}
	return nodes, leaves
}

func (l *timerLeaf) take(half uint64, first int, d *distribution) {
	for i := range l[half] {
		if w := &l[half][i]; w.Load() != 0 {
			d.add(first+i, w.Swap(0))
		}
	}
}
