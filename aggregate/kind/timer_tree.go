package kind

import (
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
