package aggregate

import (
	"math"
	"runtime"
	"sync/atomic"
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
// The live bins are a tree of two levels whose nodes come into being by compare-and-swap: a distribution that
// spans a decade needs two nodes and eight leaves, not six thousand bins.
//
// It is no larger than five cache lines: the allocator begins that size with a line, the next one anywhere in it. A test holds it.
type timer struct {
	started atomic.Uint64 // the hot half << 63 | observations begun
	halves  [2]timerHalf
	nodes   [timerNodes]atomic.Pointer[timerNode]

	// past holds, per span, what came in each unit; guarded by the history lock.
	past *[maxWindows][]timerSlot
	// pushed is what came in histograms; nil: none did. Guarded by the history lock.
	pushed *pushed
}

type timerHalf struct {
	done     atomic.Uint64
	sum      atomic.Uint64 // bits of a float64
	min, max atomic.Uint64 // likewise; +Inf and -Inf where there is nothing
}

const (
	leafBins   = 16
	nodeLeaves = 16
	timerNodes = 28 // covers binCount; a test holds it
)

type timerNode struct {
	leaves [nodeLeaves]atomic.Pointer[timerLeaf]
}

// timerLeaf holds the weights of neighbouring bins, for either half.
type timerLeaf [2][leafBins]atomic.Uint64

func newTimer() *timer {
	t := &timer{past: new([maxWindows][]timerSlot)}
	for i := range t.halves {
		t.halves[i].empty()
	}
	return t
}

func (h *timerHalf) empty() (sum, low, high float64) {
	sum = math.Float64frombits(h.sum.Swap(0))
	low = math.Float64frombits(h.min.Swap(math.Float64bits(math.Inf(1))))
	high = math.Float64frombits(h.max.Swap(math.Float64bits(math.Inf(-1))))
	return sum, low, high
}

// observe counts a value that stands for weight observations. False: it would have to grow, and may not.
func (t *timer) observe(v, weight float64, room budget) bool {
	bin := binOf(v)
	leaf := t.leaf(bin, room)
	if leaf == nil {
		return false
	}
	hot := t.started.Add(1) >> 63
	leaf[hot][bin%leafBins].Add(uint64(math.RoundToEven(weight * weightUnits)))
	t.halves[hot].enter(v*weight, v, v)
	return true
}

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
	hot := t.started.Add(1) >> 63
	for bin := d.low; bin < d.top; bin++ {
		leaf := t.leaf(bin, room)
		if w := d.weights[bin]; w != 0 && leaf != nil {
			leaf[hot][bin%leafBins].Add(w)
		}
	}
	t.halves[hot].enter(d.sum, d.min, d.max)
}

const (
	nodeBytes = nodeLeaves * 8
	// leafBytes is a leaf, and a bound of what its bins take in the slots of both windows.
	leafBytes = 2*leafBins*8 + leafBins*2*2*(ticksPerWindow+1)
)

// leaf is the leaf of a bin, made where there is none; nil: there is no room for it.
func (t *timer) leaf(bin int, room budget) *timerLeaf {
	at := &t.nodes[bin/(leafBins*nodeLeaves)]
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
	turned := t.started.Add(1 << 63)
	hot, begun := turned>>63, turned&(1<<63-1)
	cold := hot ^ 1
	for t.halves[cold].done.Load() != begun {
		runtime.Gosched() // a writer is between its two additions
	}
	t.halves[hot].done.Add(begun)
	t.halves[cold].done.Store(0)
	for n := range t.nodes {
		node := t.nodes[n].Load()
		if node == nil {
			continue
		}
		for l := range node.leaves {
			if leaf := node.leaves[l].Load(); leaf != nil {
				leaf.take(cold, (n*nodeLeaves+l)*leafBins, d)
			}
		}
	}
	d.extend(t.halves[cold].empty())
}

func (l *timerLeaf) take(half uint64, first int, d *distribution) {
	for i := range l[half] {
		if w := &l[half][i]; w.Load() != 0 {
			d.add(first+i, w.Swap(0))
		}
	}
}
