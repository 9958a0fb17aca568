package kind

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync/atomic"
)

// Sets with more members than the largest table holds are counted by HyperLogLog (Flajolet et al.,
// 2007) with the improved estimator of Ertl (arXiv:1702.01284). With 2^12 registers, the standard
// error is 1.04/√4096 = 1.6 %.
const (
	hllBits      = 12
	hllRegisters = 1 << hllBits
	hllMaxRank   = 64 - hllBits + 1
)

// registers is a HyperLogLog without concurrent writers.
type registers [hllRegisters]byte

// register returns the register of a hash and the hash's rank in it.
func register(hash uint64) (index int, rank byte) {
	index = int(hash >> (64 - hllBits))
	rest := hash<<hllBits | 1<<(hllBits-1) // the guard bit bounds the rank
	return index, byte(bits.LeadingZeros64(rest)) + 1
}

func (r *registers) insert(hash uint64) {
	i, rank := register(hash)
	r[i] = max(r[i], rank)
}

func (r *registers) merge(other *registers) {
	for i, rank := range other {
		r[i] = max(r[i], rank)
	}
}

// estimate returns Ertl's estimate of the number of members. It is unbiased over the whole range of
// a window and needs no correction tables.
func (r *registers) estimate() float64 {
	var histogram [hllMaxRank + 2]int
	for _, rank := range r {
		histogram[min(int(rank), hllMaxRank)]++
	}
	const m = float64(hllRegisters)
	z := m * tau(1-float64(histogram[hllMaxRank])/m)
	for rank := hllMaxRank - 1; rank >= 1; rank-- {
		z = 0.5 * (z + float64(histogram[rank]))
	}
	z += m * sigma(float64(histogram[0])/m)
	return m * m / (2 * math.Ln2 * z)
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := math.NaN(); z != before; {
		x *= x
		before = z
		z += x * y
		y += y
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := math.NaN(); z != before; {
		x = math.Sqrt(x)
		before = z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
	}
	return z / 3
}

// liveRegisters is a HyperLogLog for concurrent writers: four registers a word, raised by
// compare-and-swap. The roller swaps words with zero, so each rank is recorded in one tick only.
type liveRegisters [hllRegisters / 4]atomic.Uint32

func (l *liveRegisters) insert(hash uint64) {
	i, rank := register(hash)
	word, shift := &l[i/4], i%4*8
	for {
		old := word.Load()
		if byte(old>>shift) >= rank {
			return
		}
		if word.CompareAndSwap(old, old&^(0xff<<shift)|uint32(rank)<<shift) {
			return
		}
	}
}

// into merges the live registers into r. With take, it also clears them.
func (l *liveRegisters) into(r *registers, take bool) {
	for i := range l {
		word := l[i].Load()
		if word == 0 {
			continue
		}
		if take {
			word = l[i].Swap(0)
		}
		for k := range 4 {
			r[i*4+k] = max(r[i*4+k], byte(word>>(8*k)))
		}
	}
}

// appendRegisters appends the nonzero registers as pairs of gap and rank.
func appendRegisters(dst []byte, r *registers) []byte {
	before := 0
	for i, rank := range r {
		if rank != 0 {
			dst = binary.AppendUvarint(dst, uint64(i-before))
			dst = append(dst, rank)
			before = i
		}
	}
	return dst
}

// readRegisters reads the output of appendRegisters. It returns false if src is invalid.
func readRegisters(src []byte, r *registers) bool {
	i := 0
	for len(src) > 0 {
		gap, n := binary.Uvarint(src)
		if n <= 0 || len(src) == n || gap >= hllRegisters {
			return false
		}
		if i += int(gap); i >= hllRegisters || src[n] > hllMaxRank {
			return false
		}
		r[i] = src[n]
		src = src[n+1:]
	}
	return true
}
