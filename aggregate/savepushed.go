package aggregate

import (
	"encoding/binary"
	"math"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// What is pushed follows after what formatVersion 1 began with, where a series has it: what older versions wrote is read.

// appendLocked appends the last histogram, and what came in the units from since on.
func (p *pushed) appendLocked(dst []byte, spans []window.Span, since uint32) []byte {
	if p == nil {
		return dst
	}
	dst = p.origin.append(dst)
	dst = binary.AppendUvarint(dst, uint64(len(p.quantiles)))
	for _, one := range p.quantiles {
		dst = blob.AppendFloat(blob.AppendFloat(dst, one.Q), one.Value)
	}
	if p.last == nil {
		dst = append(dst, 0)
	} else {
		dst = p.last.part.append(append(dst, 1))
		dst = blob.AppendFloat(blob.AppendFloat(dst, p.last.count), p.last.sum)
	}
	for i := range spans {
		first, n := spans[i].Unit(since), 0
		for _, slot := range p.units[i] {
			if slot.unit >= first {
				n++
			}
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		for j := range p.units[i] {
			if slot := &p.units[i][j]; slot.unit >= first {
				dst = slot.append(dst, p.last)
			}
		}
	}
	return dst
}

func (s *pushedSlot) append(dst []byte, last *cumulative) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.unit))
	dst = blob.AppendFloat(blob.AppendFloat(blob.AppendFloat(blob.AppendFloat(dst, s.count), s.sum), s.min), s.max)
	dst = binary.AppendUvarint(dst, uint64(len(s.parts)))
	for _, one := range s.parts {
		if last != nil && sameBounds(one.bounds, last.bounds) {
			dst = appendCounts(append(dst, 1), one.counts)
		} else {
			dst = one.append(append(dst, 0))
		}
	}
	return dst
}

func (p part) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.bounds)))
	for _, v := range p.bounds {
		dst = blob.AppendFloat(dst, v)
	}
	return appendCounts(dst, p.counts)
}

// appendCounts appends counts: nearly all are small integers, and take a byte or two.
func appendCounts(dst []byte, counts []float64) []byte {
	for _, n := range counts {
		if n == math.Trunc(n) && n < 1<<53 {
			dst = binary.AppendUvarint(dst, uint64(n)<<1)
		} else {
			dst = blob.AppendFloat(append(dst, 1), n)
		}
	}
	return dst
}
