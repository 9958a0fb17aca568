package loadtest

import (
	"maps"
	"slices"
)

// packing counts datagrams by the number of lines in each.
type packing map[int]int64

func (p packing) add(lines int, datagrams int64) { p[lines] += datagrams }

// lines returns the number of lines in all datagrams.
func (p packing) lines() (sum int64) {
	for lines, datagrams := range p {
		sum += int64(lines) * datagrams
	}
	return sum
}

// lost returns the least and the most lines that a number of dropped datagrams had. Both are equal
// if all datagrams have the same number of lines.
func (p packing) lost(dropped int64) (least, most int64) {
	sizes := slices.Sorted(maps.Keys(p))
	least = p.first(dropped, sizes)
	slices.Reverse(sizes)
	return least, p.first(dropped, sizes)
}

func (p packing) first(dropped int64, sizes []int) (lines int64) {
	for _, size := range sizes {
		n := min(dropped, p[size])
		lines += n * int64(size)
		dropped -= n
	}
	return lines
}
