package kind

import (
	"slices"
	"unsafe"
)

// Pushed histograms take memory from the budget before they grow. What is taken follows from what
// is held, so the roll after each push, and each restore, sets it anew.

const partBytes = int64(unsafe.Sizeof(part{}))

// weight returns the memory that is taken from the budget: for as many parts and lists of bounds as
// there are, and for a part in each slot, all as large as the largest histogram was. So a histogram
// with the newest bounds takes no more.
func (p *pushed) weight() int64 {
	if p == nil {
		return 0
	}
	parts, lists := p.beside()
	n := p.weightWith(p.most, len(p.quantiles), parts, lists)
	if p.most == 0 && p.last != nil { // without other buckets
		n += int64(len(p.last.bounds)+len(p.last.counts)) * 8
	}
	return n
}

// weightWith is the weight with so many bounds, quantiles, parts beyond the first of a slot, and
// lists of bounds beside the newest.
func (p *pushed) weightWith(bounds, quantiles int, parts, lists int64) int64 {
	n := int64(unsafe.Sizeof(*p)) + int64(unsafe.Sizeof(*p.last)) + int64(quantiles)*16 +
		p.slots*int64(unsafe.Sizeof(pushedSlot{}))
	if bounds == 0 {
		return n
	}
	list := int64(bounds+1) * 8 // of counts; bounds are one fewer
	const newest = 2            // the bounds, and the counts of the newest total
	return n + (p.slots+parts)*(partBytes+list) + (newest+lists)*list
}

// beside counts the parts beyond the first of each slot, for which there is memory, and the lists
// of bounds beside the newest.
func (p *pushed) beside() (parts, lists int64) {
	for _, slots := range p.units {
		for i := range slots {
			parts += int64(max(0, cap(slots[i].parts)-1))
		}
	}
	return parts, int64(len(p.formerBounds()))
}

// formerBounds returns the lists of bounds that are held beside the newest.
func (p *pushed) formerBounds() (lists [][]float64) {
	see := func(bounds []float64) {
		is := func(other []float64) bool { return sameBounds(bounds, other) }
		if len(bounds) > 0 && !is(p.bounds) && !slices.ContainsFunc(lists, is) {
			lists = append(lists, bounds)
		}
	}
	if p.last != nil {
		see(p.last.bounds)
	}
	for _, slots := range p.units {
		for i := range slots {
			for _, one := range slots[i].parts {
				see(one.bounds)
			}
		}
	}
	return lists
}

// grow takes what a histogram may add to the weight, which was held before. another is set if the
// histogram may add a part to a slot that has others. It returns false if there is no memory.
func (p *pushed) grow(held int64, bounds []float64, quantiles int, another bool, budget Budget) bool {
	parts, lists := p.beside()
	if p.bounds != nil && len(bounds) > 0 && !slices.Equal(p.bounds, bounds) {
		another, lists = true, lists+1
	}
	if another {
		parts += mostAdded * int64(len(p.units))
	}
	need := p.weightWith(max(p.most, len(bounds)), quantiles, parts, lists) - held
	return need <= 0 || budget.take(need)
}

// mostAdded is the number of parts by which the memory of a slot grows for one more: append doubles
// it.
const mostAdded = maxParts / 2

// dropBuckets drops all buckets, for which there is no memory, but those of the newest total: growth
// is counted from it, here or by a twin. Percentiles have no value then.
func (p *pushed) dropBuckets() {
	for _, slots := range p.units {
		for i := range slots {
			slots[i].parts = nil
		}
	}
	p.bounds, p.most = nil, 0
}

// bytes returns the current memory.
func (p *pushed) bytes() int64 {
	n := int64(unsafe.Sizeof(*p)) + int64(len(p.quantiles))*16 + int64(len(p.bounds))*8
	if p.last != nil {
		n += int64(unsafe.Sizeof(*p.last)) + int64(len(p.last.counts))*8
	}
	for _, bounds := range p.formerBounds() {
		n += int64(len(bounds)) * 8
	}
	for _, slots := range p.units {
		n += int64(cap(slots)) * int64(unsafe.Sizeof(pushedSlot{}))
		for i := range slots {
			n += int64(cap(slots[i].parts)) * partBytes
			for _, part := range slots[i].parts {
				n += int64(len(part.counts)) * 8
			}
		}
	}
	return n
}
