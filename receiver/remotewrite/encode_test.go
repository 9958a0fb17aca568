package remotewrite

import (
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is one that a test writes, field by field.
type message []byte

func (m message) bytes(number protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, number, protowire.BytesType), b)
}

func (m message) text(number protowire.Number, s string) message { return m.bytes(number, []byte(s)) }

func (m message) varint(number protowire.Number, v int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, number, protowire.VarintType), uint64(v))
}

func (m message) double(number protowire.Number, v float64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, number, protowire.Fixed64Type), math.Float64bits(v))
}

func (m message) zigzag(number protowire.Number, v int64) message {
	return m.varint(number, int64(protowire.EncodeZigZag(v)))
}

func (m message) packed(number protowire.Number, all ...uint64) message {
	var b []byte
	for _, v := range all {
		b = protowire.AppendVarint(b, v)
	}
	return m.bytes(number, b)
}

func (m message) deltas(number protowire.Number, all ...int64) message {
	var b []uint64
	for _, v := range all {
		b = append(b, protowire.EncodeZigZag(v))
	}
	return m.packed(number, b...)
}

func (m message) doubles(number protowire.Number, all ...float64) message {
	var b []byte
	for _, v := range all {
		b = protowire.AppendFixed64(b, math.Float64bits(v))
	}
	return m.bytes(number, b)
}

func span(offset int64, length int64) []byte { return message{}.zigzag(1, offset).varint(2, length) }

// one is a series as a test says it; it is written in both versions.
type one struct {
	labels     []string // keys and values in turn; the first is the name's value
	kind       Type
	samples    []Sample
	histograms []message
	exemplars  int
}

func sampleMessage(s Sample) message {
	m := message{}.double(1, s.Value).varint(2, s.Timestamp)
	if s.Started != 0 {
		m = m.varint(3, s.Started)
	}
	return m
}

func (o one) pairs() []string {
	if len(o.labels) == 0 {
		return nil
	}
	return append([]string{nameLabel}, o.labels...)
}

// request1 is a request of 1.0; metadata are of families.
func request1(metadata map[string]Type, all ...one) []byte {
	var r message
	for _, o := range all {
		var m message
		for pairs := o.pairs(); len(pairs) > 0; pairs = pairs[2:] {
			m = m.bytes(1, message{}.text(1, pairs[0]).text(2, pairs[1]))
		}
		for _, s := range o.samples {
			m = m.bytes(2, sampleMessage(s))
		}
		for range o.exemplars {
			m = m.bytes(3, message{}.double(2, 1))
		}
		for _, h := range o.histograms {
			m = m.bytes(4, h)
		}
		r = r.bytes(1, m)
	}
	for name, t := range metadata {
		r = r.bytes(3, message{}.varint(1, int64(t)).text(2, name).text(4, "help"))
	}
	return r
}

// request2 is a request of 2.0.
func request2(all ...one) []byte {
	symbols := []string{""}
	ref := func(s string) uint64 {
		if i := slices.Index(symbols, s); i >= 0 {
			return uint64(i)
		}
		symbols = append(symbols, s)
		return uint64(len(symbols) - 1)
	}
	var r, series message
	for _, o := range all {
		var m message
		var refs []uint64
		for _, s := range o.pairs() {
			refs = append(refs, ref(s))
		}
		m = m.packed(1, refs...)
		for _, s := range o.samples {
			m = m.bytes(2, sampleMessage(s))
		}
		for _, h := range o.histograms {
			m = m.bytes(3, h)
		}
		for range o.exemplars {
			m = m.bytes(4, message{}.double(2, 1))
		}
		m = m.bytes(5, message{}.varint(1, int64(o.kind)).varint(3, 0))
		series = series.bytes(5, m)
	}
	for _, s := range symbols {
		r = r.text(4, s)
	}
	return append(r, series...)
}
