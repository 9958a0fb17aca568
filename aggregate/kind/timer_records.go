package kind

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

// timerSlots holds a record for each of the newest units of a span that have observations, the
// oldest first. Guarded by the history lock.
type timerSlots struct {
	records []byte
	count   uint32
	last    uint32 // offset of the newest record
	newest  uint32 // unit of the newest record; 0: none
}

// timerRecord is the distribution of a unit. Its encoding: the size as a varint, the unit as a
// varint, a byte with a bit for each of the three numbers that takes eight bytes, sum, minimum and
// maximum (appendNarrow), and the bins (appendBins).
type timerRecord struct {
	unit          uint32
	sum, min, max float64
	bins          []byte
}

// cutRecord decodes the first record of a list and returns the rest. It returns false if the record
// is invalid.
func cutRecord(list []byte) (rec timerRecord, rest []byte, ok bool) {
	size, n := binary.Uvarint(list)
	if n <= 0 || size > uint64(len(list)-n) {
		return rec, nil, false
	}
	list, rest = list[n:n+int(size)], list[n+int(size):]
	unit, n := binary.Uvarint(list)
	if n <= 0 || n == len(list) || unit == 0 || unit > math.MaxUint32 {
		return rec, nil, false
	}
	rec.unit = uint32(unit)
	wide, list := list[n], list[n+1:]
	for i, to := range [...]*float64{&rec.sum, &rec.min, &rec.max} {
		if list, ok = cutFloat(to, list, wide>>i&1 != 0); !ok {
			return rec, nil, false
		}
	}
	rec.bins = list
	return rec, rest, true
}

// recordUnit returns the unit of the first record of a valid list.
func recordUnit(list []byte) uint32 {
	_, n := binary.Uvarint(list)
	unit, _ := binary.Uvarint(list[n:])
	return uint32(unit)
}

// recordSize returns the number of bytes of the first record of a valid list.
func recordSize(list []byte) int {
	size, n := binary.Uvarint(list)
	return n + int(size)
}

// appendNarrow appends a float64. The bits of whole numbers and short fractions end in zeroes, so
// their bytes in reverse are a short varint. Other numbers take eight bytes and set bit i of wide.
func appendNarrow(dst []byte, v float64, wide *byte, i int) []byte {
	at := len(dst)
	dst = binary.AppendUvarint(dst, bits.ReverseBytes64(math.Float64bits(v)))
	if len(dst)-at > 8 {
		*wide |= 1 << i
		return blob.AppendFloat(dst[:at], v)
	}
	return dst
}

// cutFloat decodes the output of appendNarrow and returns the rest.
func cutFloat(to *float64, list []byte, wide bool) ([]byte, bool) {
	if wide {
		if len(list) < 8 {
			return nil, false
		}
		*to = math.Float64frombits(binary.LittleEndian.Uint64(list))
		return list[8:], true
	}
	v, n := binary.Uvarint(list)
	if n <= 0 {
		return nil, false
	}
	*to = math.Float64frombits(bits.ReverseBytes64(v))
	return list[n:], true
}

// record encodes a distribution as the record of a unit. The result is valid until the next call.
func (d *distribution) record(unit uint32) []byte {
	const head = 2 * binary.MaxVarintLen32 // most bytes of size and unit
	if d.scratch == nil {
		d.scratch = make([]byte, head, 512)
	}
	body := d.scratch[:head]
	body = append(body, 0)
	for i, v := range [...]float64{d.Sum, d.min, d.max} {
		body = appendNarrow(body, v, &body[head], i)
	}
	body = d.appendBins(body)
	d.scratch = body[:head]

	var prefix [head]byte
	n := binary.PutUvarint(prefix[:], uint64(unit))
	n = binary.PutUvarint(prefix[:], uint64(len(body)-head+n))
	n += binary.PutUvarint(prefix[n:], uint64(unit))
	copy(body[head-n:], prefix[:n])
	return body[head-n:]
}

// merge adds one record.
func (d *distribution) merge(rec timerRecord) {
	d.addBins(rec.bins)
	d.extend(rec.sum, rec.min, rec.max)
}

// each calls f for the records of unit first and later units.
func (s *timerSlots) each(first uint32, f func(timerRecord)) {
	if s.newest < first {
		return
	}
	for rest := s.records; len(rest) > 0; {
		if recordUnit(rest) < first {
			rest = rest[recordSize(rest):]
			continue
		}
		var rec timerRecord
		if rec, rest, _ = cutRecord(rest); rec.unit >= first {
			f(rec)
		}
	}
}

// since returns the records of unit first and later units, and their number.
func (s *timerSlots) since(first uint32) (records []byte, n uint32) {
	records, n = s.records, s.count
	for len(records) > 0 && recordUnit(records) < first {
		records, n = records[recordSize(records):], n-1
	}
	return records, n
}

// oldest returns the unit of the oldest record, or 0 if there is none.
func (s *timerSlots) oldest() uint32 {
	if s.count == 0 {
		return 0
	}
	return recordUnit(s.records)
}

// setNewest appends the record of a unit, or replaces the newest record if it has the same unit. It
// drops the oldest record if there would be more than limit.
func (s *timerSlots) setNewest(unit uint32, rec []byte, limit int) {
	if unit != s.newest {
		if int(s.count) == limit {
			s.dropOldest()
		}
		s.last, s.newest = uint32(len(s.records)), unit
		s.count++
	}
	s.put(int(s.last), rec)
}

func (s *timerSlots) dropOldest() {
	size := recordSize(s.records)
	s.records = s.records[:copy(s.records, s.records[size:])]
	s.last -= min(s.last, uint32(size))
	s.count--
}

// put truncates the records at an offset and appends a record. It reallocates if the capacity is
// too small or much too large.
func (s *timerSlots) put(at int, rec []byte) {
	need := at + len(rec)
	if have := cap(s.records); need > have || have > 2*need+slotSlack {
		s.records = append(append([]byte(nil), make([]byte, need+need/16)...)[:0], s.records[:at]...)
	}
	s.records = append(s.records[:at], rec...)
}

// slotSlack is the spare capacity, beyond twice the used bytes, from which put reallocates.
const slotSlack = 512

// newestRecord returns the newest record, which must exist.
func (s *timerSlots) newestRecord() timerRecord {
	rec, _, _ := cutRecord(s.records[s.last:])
	return rec
}

const slotsBytes = int64(unsafe.Sizeof(timerSlots{}))
