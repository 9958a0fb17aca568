package window

import (
	"encoding/binary"
	"math/bits"
)

// Coding maps changes of a number to small integers, so that small changes take few bytes in logs
// and on disk. Differences wrap, so each coding is exact for every pair of values.
type Coding uint8

const (
	WholeCoding  Coding = iota // counters: a signed difference
	FloatCoding                // gauges: bits of a float64, which mostly end in zeroes
	WeightCoding               // weights of timers: bits of a float64
)

func (c Coding) pack(v uint64) uint64 {
	if c != WholeCoding {
		return bits.Reverse64(v)
	}
	return v<<1 ^ uint64(int64(v)>>63)
}

// Unpack reverses pack.
func (c Coding) Unpack(v uint64) uint64 {
	if c != WholeCoding {
		return bits.Reverse64(v)
	}
	return v>>1 ^ -(v & 1)
}

// Append appends a packed change as a varint.
func (c Coding) Append(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, c.pack(v)) }
