package format

import "encoding/binary"

// The first byte of a key says what its entry is.
const (
	PrefixVersion    = 'v'
	PrefixClock      = 'k'
	PrefixNames      = 'n'
	PrefixCheckpoint = 'c'
	PrefixDelta      = 'd'
	PrefixPart       = 'p'
	PrefixDocument   = 'g'
	PrefixUnfinished = 'u'
)

// DeltaSlots is the number of keys that a block's deltas rotate through. A delta overwrites the one
// written DeltaSlots periods before, so small deltas never have to be deleted.
const DeltaSlots = 128

// A Sequence numbers the flushes: period<<8 | flush within the period. A period is one flush
// interval. Flushes that a Sync requests in between share the period's slot and add a key of their
// own, so frequent Syncs neither use the slots up nor speed up the rotation of checkpoints.
type Sequence uint64

// Period is the number of the flush interval.
func (s Sequence) Period() uint64 { return uint64(s >> 8) }

// OpensPeriod reports whether the flush is the first of its period.
func (s Sequence) OpensPeriod() bool { return byte(s) == 0 }

// Next is the following sequence, in the same period or in a new one. A period has 256 sequences at
// most.
func (s Sequence) Next(samePeriod bool) Sequence {
	if samePeriod && s&0xff != 0xff {
		return s + 1
	}
	return Sequence(s.Period()+1) << 8
}

// AppendBlockKey appends the key of a block's names or checkpoint, or the prefix of its deltas.
func AppendBlockKey(dst []byte, prefix byte, block int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, prefix), uint32(block))
}

// AppendDeltaKey appends the key under which a flush writes a block's delta.
func AppendDeltaKey(dst []byte, block int, seq Sequence) []byte {
	return append(AppendBlockKey(dst, PrefixDelta, block), byte(seq.Period()%DeltaSlots), byte(seq))
}

// AppendPartKey appends the key of one part of the value whose head has the given key.
func AppendPartKey(dst, head []byte, generation uint8, part int) []byte {
	dst = append(append(append(dst, PrefixPart), head...), generation)
	return binary.BigEndian.AppendUint16(dst, uint16(part))
}

// BlockOf reads the block number out of a key of AppendBlockKey or AppendDeltaKey.
func BlockOf(key []byte) (int, bool) {
	if len(key) < 5 {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(key[1:])), true
}
