package receiver

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// appendLine packs all of a sample but its value and its sender: samples whose packed forms are equal differ in nothing
// else. The form lives no longer than the process.
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
	dst = binary.AppendVarint(dst, s.Timestamp)
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

// unpacked is a sample made of a packed line, with the memory that it needs. What it holds borrows the packed bytes.
type unpacked struct {
	sample    metric.Sample
	about     metric.Object
	fields    []metric.Label
	histogram metric.Histogram
}

func (u *unpacked) read(line []byte) {
	u.fields = u.fields[:0]
	u.sample = metric.Sample{
		Kind: metric.Kind(line[0]), Op: metric.Op(line[1]), Separator: line[2], DefaultExternal: line[3]&flagExternal != 0, Late: line[3]&flagLate != 0,
		Rate: math.Float64frombits(binary.LittleEndian.Uint64(line[5:])),
	}
	hasAbout, rest := line[4] == 1, line[13:]
	u.sample.Timestamp, rest = cutVarint(rest)
	ttl, rest := cutVarint(rest)
	u.sample.TTL = time.Duration(ttl)
	rest = u.readTotal(rest)
	for _, to := range [...]*[]byte{&u.sample.Name, &u.sample.Tags, &u.sample.Container, &u.sample.External, &u.sample.Member} {
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

// cutPiece is nil for an empty piece.
func cutPiece(b []byte) (piece, rest []byte) {
	length, n := binary.Uvarint(b)
	if length == 0 {
		return nil, b[n:]
	}
	end := n + int(length)
	return b[n:end:end], b[end:]
}
