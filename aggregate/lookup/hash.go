package lookup

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"unsafe"
)

// Hash hashes two pieces of a line with the mixing step of wyhash (github.com/wangyi-fudan/wyhash):
// a 128-bit product folded onto 64 bits, which is also the fallback of Go's maps. For two short
// pieces it costs a third of hash/maphash. The seed is secret, so no sender can choose lines that
// collide.
type Hash struct{ a, b, C uint64 }

func NewHash() Hash { return Hash{rand.Uint64() | 1, rand.Uint64() | 1, rand.Uint64() | 1} }

func (h *Hash) Of(head, rest []byte) uint64 {
	return h.piece(h.piece(h.C, head), rest)
}

// String hashes a string into a state. The length is mixed in, so "ab" then "c" hashes unlike "a"
// then "bc".
func (h *Hash) String(state uint64, s string) uint64 {
	return h.piece(state, unsafe.Slice(unsafe.StringData(s), len(s)))
}

func (h *Hash) piece(state uint64, p []byte) uint64 {
	n := uint64(len(p))
	for len(p) > 16 {
		state = fold(binary.LittleEndian.Uint64(p)^h.a, binary.LittleEndian.Uint64(p[8:])^state)
		p = p[16:]
	}
	var low, high uint64
	switch {
	case len(p) >= 8:
		low, high = binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[len(p)-8:])
	case len(p) >= 4:
		low, high = uint64(binary.LittleEndian.Uint32(p)), uint64(binary.LittleEndian.Uint32(p[len(p)-4:]))
	case len(p) > 0:
		low = uint64(p[0])<<16 | uint64(p[len(p)/2])<<8 | uint64(p[len(p)-1])
	}
	return fold(h.b^n, fold(low^h.a, high^state))
}

func fold(x, y uint64) uint64 {
	high, low := bits.Mul64(x, y)
	return high ^ low
}
