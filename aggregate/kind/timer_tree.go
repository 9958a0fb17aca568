package kind

import (
	"math"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// timerTree holds the bins without a place in the live part of a timer, for both halves. Writers
// create its nodes by compare-and-swap.
type timerTree [timerNodes]atomic.Pointer[timerNode]

type timerNode struct {
	leaves [nodeLeaves]atomic.Pointer[timerLeaf]
}

// timerLeaf holds the weights of adjacent bins, by half.
type timerLeaf [2][leafBins]atomic.Uint64

const (
	leafBins   = 16
	nodeLeaves = 16
	timerNodes = 28 // enough for BinCount; a test checks it

	treeBytes = timerNodes * 8
	nodeBytes = nodeLeaves * 8
	// leafBytes is the memory of a leaf, plus a bound for its bins in the records of two windows.
	leafBytes = 2*leafBins*8 + leafBins*2*2*(window.TicksPerWindow+1)
)

// leaf returns the leaf of a bin, and creates it if there is none. It returns nil if there is no
// memory.
func (t *timer) leaf(bin int, budget Budget) *timerLeaf {
	tree := t.tree.Load()
	if tree == nil {
		if !budget.take(treeBytes) {
			return nil
		}
		t.tree.CompareAndSwap(nil, new(timerTree))
		tree = t.tree.Load()
	}
	at := &tree[bin/(leafBins*nodeLeaves)]
	node := at.Load()
	if node == nil {
		if !budget.take(nodeBytes) {
			return nil
		}
		at.CompareAndSwap(nil, new(timerNode))
		node = at.Load()
	}
	up := &node.leaves[bin/leafBins%nodeLeaves]
	leaf := up.Load()
	if leaf == nil {
		if !budget.take(leafBytes) {
			return nil
		}
		up.CompareAndSwap(nil, new(timerLeaf))
		leaf = up.Load()
	}
	return leaf
}

// take moves the weights of a half into d.
func (t *timerTree) take(half uint32, d *distribution) {
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

// count returns the number of nodes and leaves.
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

func (l *timerLeaf) take(half uint32, first int, d *distribution) {
	for i := range l[half] {
		if w := &l[half][i]; w.Load() != 0 {
			d.add(first+i, w.Swap(0))
		}
	}
}

// timer is the body of a timer. Writers add to the hot half of its live part, with atomics only.
//
// The holder of the history lock collects the observations. It makes the other half hot, waits
// until no writer is in the cold half, and empties that; then the same in reverse. So bins, sum and
// extremes cover the same observations, and each observation is collected once. client_golang's
// histogram has such halves. A single half, read bin by bin during writes, was off by a hundred
// observations in half a million.
type timer struct {
	tree atomic.Pointer[timerTree] // bins without a place in the live part; nil: none

	// units holds the records of each span; nil: none. folded is the newest unit of the shortest
	// span that the longer spans include (D5). Guarded by the history lock.
	units  []timerSlots
	folded uint32
	// pushed is the state of pushed histograms; nil: none. Guarded by the history lock.
	pushed *pushed
	// sum is the sum of all observations that the history counts, for exports; NaN: a client did
	// not say a part of it. Guarded by the history lock.
	sum float64
	// buckets are the totals of the buckets; nil: none are kept. Guarded by the history lock.
	buckets *bucketTotals
}

// observe counts a value with a weight in the hot half. It returns false if there is no memory.
func (t *timer) observe(live *TimerLive, hot uint32, v, weight float64, budget Budget) bool {
	bin := BinOf(v)
	if !t.count(live, hot, bin, uint64(math.RoundToEven(weight*WeightUnits)), budget) {
		return false
	}
	live.Line(hot, bin).enter(v*weight, v, v)
	return true
}

// count adds to a bin of a half. It returns false if there is no memory.
func (t *timer) count(live *TimerLive, hot uint32, bin int, units uint64, budget Budget) bool {
	if n := units / WeightUnits; n <= mostIn && units%WeightUnits == 0 && live.count(hot, bin, uint32(n)) != nil {
		return true
	}
	leaf := t.leaf(bin, budget)
	if leaf == nil {
		return false
	}
	leaf[hot][bin%leafBins].Add(units)
	return true
}

// takeOverLocked adds the late observations of a removed timer.
func (t *timer) takeOverLocked(lives *timerLives, c *Cell, from *timer, cell *Cell, budget Budget) {
	if lives.Of(cell) == nil {
		return
	}
	live := lives.make(c, budget)
	if live == nil {
		return
	}
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	d.reset()
	from.takeLocked(lives, cell, d)
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			t.count(live, 0, bin, w, budget)
		}
	}
	live[0].enter(d.Sum, d.min, d.max)
}

// takeLocked moves the observations since the previous call into d.
func (t *timer) takeLocked(lives *timerLives, c *Cell, d *distribution) {
	live := lives.Of(c)
	if live == nil {
		return
	}
	for range 2 {
		cold := lives.swapHalves(c)
		if tree := t.tree.Load(); tree != nil {
			tree.take(cold, d)
		}
		live.take(cold, d)
	}
}
