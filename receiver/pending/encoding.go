package pending

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// appendLine packs a sample without the value and the sender. Samples differ in nothing else if and
// only if their packed forms are equal. The form is valid within the process only.
func appendLine(dst []byte, s *metric.Sample) []byte {
	flags, about := byte(0), byte(0)
	if s.DefaultExternal {
		flags |= flagExternal
	}
	if s.Late {
		flags |= flagLate
	}
	if s.Object != nil {
		about = 1
	}
	dst = append(dst, byte(s.Kind), byte(s.Op), s.Separator, flags, about)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(s.Rate))
	dst = binary.AppendVarint(dst, s.Dated)
	dst = binary.AppendVarint(dst, int64(s.TTL))
	dst = appendTotal(dst, s)
	for _, b := range [...][]byte{s.Name, s.Tags, s.Container, s.External, s.Member} {
		dst = appendPiece(dst, metric.Borrow(b))
	}
	if s.Object != nil {
		for _, text := range [...]string{s.Object.Resource, s.Object.Namespace, s.Object.Name, s.Object.UID} {
			dst = appendPiece(dst, text)
		}
	}
	for _, l := range s.Fields {
		dst = appendPiece(appendPiece(dst, l.Key), l.Value)
	}
	return dst
}

const (
	flagExternal = 1 << iota
	flagLate
)

func appendPiece(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// unpacked is a sample made from a packed line, with its memory. It borrows the packed bytes.
type unpacked struct {
	sample    metric.Sample
	about     metric.Object
	fields    []metric.Label
	histogram metric.Histogram
}

func (u *unpacked) read(line []byte) {
	u.fields = u.fields[:0]
	u.sample = metric.Sample{
		Kind: metric.Kind(line[0]), Op: metric.Op(line[1]), Separator: line[2], DefaultExternal: line[3]&flagExternal != 0,
		Late: line[3]&flagLate != 0,
		Rate: math.Float64frombits(binary.LittleEndian.Uint64(line[5:])),
	}
	hasAbout, rest := line[4] == 1, line[13:]
	u.sample.Dated, rest = cutVarint(rest)
	ttl, rest := cutVarint(rest)
	u.sample.TTL = time.Duration(ttl)
	rest = u.readTotal(rest)
	for _, to := range [...]*[]byte{&u.sample.Name, &u.sample.Tags, &u.sample.Container, &u.sample.External,
		&u.sample.Member} {
		*to, rest = cutPiece(rest)
	}
	if hasAbout {
		for _, to := range [...]*string{&u.about.Resource, &u.about.Namespace, &u.about.Name, &u.about.UID} {
			var text []byte
			text, rest = cutPiece(rest)
			*to = metric.Borrow(text)
		}
		u.sample.Object = &u.about
	}
	for len(rest) > 0 {
		var key, value []byte
		key, rest = cutPiece(rest)
		value, rest = cutPiece(rest)
		u.fields = append(u.fields, metric.Label{Key: metric.Borrow(key), Value: metric.Borrow(value)})
	}
	u.sample.Fields = u.fields
}

func cutVarint(b []byte) (int64, []byte) {
	v, n := binary.Varint(b)
	return v, b[n:]
}

// cutPiece returns nil for an empty piece.
func cutPiece(b []byte) (piece, rest []byte) {
	length, n := binary.Uvarint(b)
	if length == 0 {
		return nil, b[n:]
	}
	end := n + int(length)
	return b[n:end:end], b[end:]
}

// appendTotal packs the fields of a running total. A histogram is part of the line: it is never
// merged with another one.
func appendTotal(dst []byte, s *metric.Sample) []byte {
	dst = binary.AppendVarint(dst, s.Started)
	h := s.Histogram
	if h == nil {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	dst = appendNumbers(dst, h.Bounds)
	dst = appendNumbers(dst, h.Counts)
	for _, v := range [...]float64{h.Count, h.Sum, h.Min, h.Max} {
		dst = appendNumber(dst, v)
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.Quantiles)))
	for _, q := range h.Quantiles {
		dst = appendNumber(appendNumber(dst, q.Q), q.Value)
	}
	return dst
}

func appendNumbers(dst []byte, all []float64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for _, v := range all {
		dst = appendNumber(dst, v)
	}
	return dst
}

func appendNumber(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// readTotal reads the output of appendTotal, and returns the bytes that follow.
func (u *unpacked) readTotal(line []byte) []byte {
	u.sample.Started, line = cutVarint(line)
	has := line[0] == 1
	line = line[1:]
	if !has {
		return line
	}
	h := &u.histogram
	h.Bounds, line = cutNumbers(h.Bounds[:0], line)
	h.Counts, line = cutNumbers(h.Counts[:0], line)
	for _, to := range [...]*float64{&h.Count, &h.Sum, &h.Min, &h.Max} {
		*to, line = cutNumber(line)
	}
	n, size := binary.Uvarint(line)
	h.Quantiles, line = h.Quantiles[:0], line[size:]
	for range n {
		var q metric.Quantile
		q.Q, line = cutNumber(line)
		q.Value, line = cutNumber(line)
		h.Quantiles = append(h.Quantiles, q)
	}
	u.sample.Histogram = h
	return line
}

func cutNumbers(dst []float64, b []byte) (all []float64, rest []byte) {
	n, size := binary.Uvarint(b)
	b = b[size:]
	for range n {
		var v float64
		v, b = cutNumber(b)
		dst = append(dst, v)
	}
	return dst, b
}

func cutNumber(b []byte) (v float64, rest []byte) {
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:]
}
