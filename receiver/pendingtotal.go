package receiver

import (
	"encoding/binary"
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// appendTotal packs what a running total has that other samples have not. A histogram is part of the line: what is held of it is
// no less than it is.
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

// readTotal reads what appendTotal packed, and returns what follows.
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
