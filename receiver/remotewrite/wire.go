package remotewrite

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message, with its bytes or number by wire type.
type field struct {
	number protowire.Number
	wire   protowire.Type
	bytes  []byte
	value  uint64
}

// cut splits the first field off a message. Of a group, only the presence is returned. Like
// decoders, callers skip unknown fields and fields of the wrong wire type.
func cut(message []byte) (f field, rest []byte, ok bool) {
	number, wire, n := protowire.ConsumeTag(message)
	if n < 0 || number > protowire.MaxValidNumber {
		return f, nil, false
	}
	f.number, f.wire, rest = number, wire, message[n:]
	switch wire {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		f.value, n = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(rest)
	default:
		n = protowire.ConsumeFieldValue(number, wire, rest)
	}
	if n < 0 {
		return f, nil, false
	}
	return f, rest[n:], true
}

func (f *field) isBytes(number protowire.Number) bool {
	return f.number == number && f.wire == protowire.BytesType
}

func (f *field) isVarint(number protowire.Number) bool {
	return f.number == number && f.wire == protowire.VarintType
}

func (f *field) isDouble(number protowire.Number) bool {
	return f.number == number && f.wire == protowire.Fixed64Type
}

func (f *field) double() float64 { return math.Float64frombits(f.value) }

// appendVarints appends a repeated number, packed or not, and returns a fault if it is cut short or
// over the limit.
func appendVarints(dst []uint64, f *field, most int) (all []uint64, d detail) {
	if f.wire == protowire.VarintType {
		return append(dst, f.value), overCount(len(dst)+1, most)
	}
	for rest := f.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			return dst, badMessage
		}
		if len(dst) == most {
			return dst, manyBuckets
		}
		dst, rest = append(dst, v), rest[n:]
	}
	return dst, noDetail
}

// appendDoubles is appendVarints for 64-bit numbers.
func appendDoubles(dst []float64, f *field, most int) (all []float64, d detail) {
	if f.wire == protowire.Fixed64Type {
		return append(dst, f.double()), overCount(len(dst)+1, most)
	}
	for rest := f.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeFixed64(rest)
		if n < 0 {
			return dst, badMessage
		}
		if len(dst) == most {
			return dst, manyBuckets
		}
		dst, rest = append(dst, math.Float64frombits(v)), rest[n:]
	}
	return dst, noDetail
}

func overCount(n, most int) detail {
	if n > most {
		return manyBuckets
	}
	return noDetail
}
