package aggregate

import (
	"encoding/binary"
	"math/bits"
)

// coding is how changes of a number become small integers, in logs and on disk: numbers that change by little should
// take few bytes. Differences wrap, so each coding is exact for every pair of values.
type coding uint8

const (
	wholeCoding  coding = iota // counters: a signed difference
	floatCoding                // gauges: bits of a float64, which mostly end in zeroes
	weightCoding               // the weight of timers, a float64 too
)

func (c coding) pack(v uint64) uint64 {
	if c != wholeCoding {
		return bits.Reverse64(v)
	}
	return v<<1 ^ uint64(int64(v)>>63)
}

func (c coding) unpack(v uint64) uint64 {
	if c != wholeCoding {
		return bits.Reverse64(v)
	}
	return v>>1 ^ -(v & 1)
}

func (c coding) append(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, c.pack(v)) }
