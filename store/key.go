package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The first byte of every key. Block numbers are big-endian, so that a block's deltas lie together.
const (
	versionKey    = 'v'
	clockKey      = 'k'
	namesKey      = 'n'
	checkpointKey = 'c'
	deltaKey      = 'd'
	partKey       = 'p'
	documentKey   = 'g'
)

// A sequence numbers the flushes: period<<8 | flush within the period. A period is a flush interval; flushes
// that a Sync asks for in between share its slot number and add one of their own, so that many of them
// neither use the slots up nor drive the rotation of checkpoints.
type sequence uint64

func (s sequence) period() uint64 { return uint64(s >> 8) }

// next is the following sequence, in the same period or in a new one.
func (s sequence) next(samePeriod bool) sequence {
	if samePeriod && s&0xff != 0xff {
		return s + 1
	}
	return sequence(s.period()+1) << 8
}

func blockKey(dst []byte, kind byte, block int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, kind), uint32(block))
}

// slotKey is where the delta of a flush goes.
func slotKey(dst []byte, block int, seq sequence) []byte {
	return append(blockKey(dst, deltaKey, block), byte(seq.period()%deltaSlots), byte(seq))
}

func appendPartKey(dst, head []byte, generation uint8, part int) []byte {
	dst = append(append(append(dst, partKey), head...), generation)
	return binary.BigEndian.AppendUint16(dst, uint16(part))
}

// blockOf reads the block number out of a key that blockKey or slotKey made.
func blockOf(key []byte) (int, bool) {
	if len(key) < 5 {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(key[1:])), true
}

// A header opens every value of a block. The value's bytes follow it, or lie in parts.
type header struct {
	seq        sequence
	link       sequence // of a delta: the block's write before it; of a checkpoint: that of its names
	sum        uint32   // CRC-32C of the whole value
	length     uint32   // of the whole value
	parts      uint16   // 0: the value follows
	generation uint8    // of the parts
}

const headerBytes = 8 + 8 + 4 + 4 + 2 + 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errHeader = errors.New("its header is cut short")

func (h header) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.seq))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.link))
	dst = binary.BigEndian.AppendUint32(dst, h.sum)
	dst = binary.BigEndian.AppendUint32(dst, h.length)
	dst = binary.BigEndian.AppendUint16(dst, h.parts)
	return append(dst, h.generation)
}

func readHeader(value []byte) (header, []byte, error) {
	if len(value) < headerBytes {
		return header{}, nil, errHeader
	}
	return header{
		seq:        sequence(binary.BigEndian.Uint64(value)),
		link:       sequence(binary.BigEndian.Uint64(value[8:])),
		sum:        binary.BigEndian.Uint32(value[16:]),
		length:     binary.BigEndian.Uint32(value[20:]),
		parts:      binary.BigEndian.Uint16(value[24:]),
		generation: value[26],
	}, value[headerBytes:], nil
}
