package kind

import (
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/window"
)

// timerTree holds what found no place in the live part of a timer, for either half: its nodes come
// into being by compare-and-swap.
type timerTree [timerNodes]atomic.Pointer[timerNode]

type timerNode struct {
	leaves [nodeLeaves]atomic.Pointer[timerLeaf]
}

// timerLeaf holds the weights of neighbouring bins, for either half.
type timerLeaf [2][leafBins]atomic.Uint64

const (
	leafBins   = 16
	nodeLeaves = 16
	timerNodes = 28 // covers binCount; a test holds it

	treeBytes = timerNodes * 8
	nodeBytes = nodeLeaves * 8
	// leafBytes is a leaf, and a bound of what its bins take in the slots of both windows.
	leafBytes = 2*leafBins*8 + leafBins*2*2*(window.TicksPerWindow+1)
)

// leaf is the leaf of a bin, made where there is none; nil: there is no room for it.
func (t *timer) leaf(bin int, room Budget) *timerLeaf {
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

func (l *timerLeaf) take(half uint32, first int, d *distribution) {
	for i := range l[half] {
		if w := &l[half][i]; w.Load() != 0 {
			d.add(first+i, w.Swap(0))
		}
	}
}
