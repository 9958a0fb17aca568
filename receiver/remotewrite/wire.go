package remotewrite

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/sluice-metrics/sluice/metric"
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
func appendVarints(dst []uint64, f *field, limit int) (all []uint64, d detail) {
	if f.wire == protowire.VarintType {
		return append(dst, f.value), overCount(len(dst)+1, limit)
	}
	for rest := f.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			return dst, badMessage
		}
		if len(dst) == limit {
			return dst, manyBuckets
		}
		dst, rest = append(dst, v), rest[n:]
	}
	return dst, noDetail
}

// appendDoubles is appendVarints for 64-bit numbers.
func appendDoubles(dst []float64, f *field, limit int) (all []float64, d detail) {
	if f.wire == protowire.Fixed64Type {
		return append(dst, f.double()), overCount(len(dst)+1, limit)
	}
	for rest := f.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeFixed64(rest)
		if n < 0 {
			return dst, badMessage
		}
		if len(dst) == limit {
			return dst, manyBuckets
		}
		dst, rest = append(dst, math.Float64frombits(v)), rest[n:]
	}
	return dst, noDetail
}

func overCount(n, limit int) detail {
	if n > limit {
		return manyBuckets
	}
	return noDetail
}

// skimmed is a series whose labels are not read yet.
type skimmed struct {
	message []byte
	number  int
	unknown bool // it has to be read, although the cache knows it
	// plain says that the labels precede all else and one finite sample follows, no histogram. Only
	// then are the other fields valid.
	plain  bool
	sample Sample
	name   string
	// of and guessed are what the series' type would be without the label __type__.
	of      Type
	guessed bool
}

// skim finds the labels of a series without reading them. The line has their bytes: of 1.0 as on
// the wire, of 2.0 the symbols one after the other, each after its length. The numbers of symbols
// differ from request to request.
func (r *Reader) skim(e *skimmed, l *metric.Line) {
	*l = metric.Line{DefaultExternal: true}
	var labels, rest []byte
	if r.version == V1 {
		labels, rest = r.spell1(e)
	} else {
		labels, rest = r.spell2(e)
	}
	if e.plain = len(labels) > 0 && r.skimRest(e, rest); !e.plain {
		return
	}
	l.Head, l.Dialect = labels, dialect(r.version, e)
}

// The bits of a line's dialect. Labels mean another series if their type is another, and the
// grammars of StatsD have smaller numbers.
const (
	remoteDialect  = 0x80
	secondDialect  = 0x40
	guessedDialect = 0x20
)

func dialect(v Version, e *skimmed) uint8 {
	d := remoteDialect | uint8(e.of)
	if v == V2 {
		d |= secondDialect
	}
	if e.guessed {
		d |= guessedDialect
	}
	return d
}

// nameOfFirst begins a Label of 1.0 that has the name.
var nameOfFirst = []byte("\x0a\x08" + nameLabel + "\x12")

// spell1 cuts the labels off a series of 1.0, and finds the type. Prometheus sorts labels, so the
// name is the first.
func (r *Reader) spell1(e *skimmed) (labels, rest []byte) {
	n, message := labelsLength(e.message), e.message
	if n == 0 {
		return nil, nil
	}
	first, _ := protowire.ConsumeBytes(message[1:])
	if !bytes.HasPrefix(first, nameOfFirst) {
		return nil, nil
	}
	value := first[len(nameOfFirst):]
	name, size := protowire.ConsumeBytes(value)
	if size != len(value) {
		return nil, nil
	}
	e.name = metric.Borrow(name)
	e.of, e.guessed = r.typeOf(e.name)
	return message[:n], message[n:]
}

// labelsLength is the length of the labels at the start of a series of 1.0; 0: there are none, or
// they are damaged.
func labelsLength(message []byte) int {
	at := 0
	for at+1 < len(message) && message[at] == 1<<3|byte(protowire.BytesType) {
		n, size := uint64(message[at+1]), 1
		if n >= 0x80 {
			n, size = binary.Uvarint(message[at+1:])
		}
		if at += 1 + size; size <= 0 || n > uint64(len(message)-at) {
			return 0
		}
		at += int(n)
	}
	return at
}

// spell2 writes the labels of a series of 2.0 out.
func (r *Reader) spell2(e *skimmed) (labels, rest []byte) {
	f, rest, ok := cut(e.message)
	if !ok || !f.isBytes(1) {
		return nil, nil
	}
	from, n := len(r.spelled), 0
	for refs := f.bytes; len(refs) > 0; n++ {
		ref, size := uint64(refs[0]), 1
		if ref >= 0x80 {
			ref, size = binary.Uvarint(refs)
		}
		if size <= 0 || ref >= uint64(len(r.symbols)) {
			return nil, nil
		}
		symbol := r.symbols[ref]
		switch {
		case n == 0 && symbol != nameLabel:
			return nil, nil
		case n == 1:
			e.name = symbol
		}
		r.spelled = append(binary.AppendUvarint(r.spelled, uint64(len(symbol))), symbol...)
		refs = refs[size:]
	}
	if n%2 != 0 || len(r.spelled)-from > maxSpelled {
		return nil, nil
	}
	return r.spelled[from:], rest
}

// maxSpelled bounds the bytes that are written out: a reference of one byte may be to a long
// symbol. The labels of longer series are read.
const maxSpelled = 2048

// skimRest reads the fields after the labels. It returns false unless there is one finite sample,
// and neither a histogram nor another label.
func (r *Reader) skimRest(e *skimmed, rest []byte) bool {
	samples, created := 0, int64(0)
	if r.version == V2 {
		e.of = NoType
	}
	for len(rest) > 0 {
		f, after, ok := cut(rest)
		if !ok {
			return false
		}
		rest = after
		switch {
		case f.number == 1:
			return false
		case f.isBytes(2):
			if samples++; samples > 1 || !e.sample.read(f.bytes, r.version) {
				return false
			}
		case f.isBytes(3) && r.version == V1, f.isBytes(4) && r.version == V2:
			// exemplars are dropped
		case f.isBytes(3), f.isBytes(4):
			return false
		case r.version == V2 && f.isBytes(5):
			if readType(f.bytes, &e.of) != noDetail {
				return false
			}
		case r.version == V2 && f.isVarint(6):
			created = int64(f.value)
		}
	}
	if r.version == V2 {
		e.guessed = e.of == NoType
	}
	if e.sample.Started == 0 {
		e.sample.Started = created
	}
	return samples == 1 && metric.IsFinite(e.sample.Value)
}
