package kind

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

// timerSlots holds one record for each of the latest units of a span with observations, the oldest
// first. Guarded by the history lock.
type timerSlots struct {
	records []byte
	count   uint32
	last    uint32 // where the newest begins
	newest  uint32 // its unit; 0: there is none
}

// A record is its size, its unit, sum, minimum and maximum, and the bins as appendBins has them.
type timerRecord struct {
	unit          uint32
	sum, min, max float64
	bins          []byte
}

// cutRecord takes the first record of a list, or returns false if it is invalid.
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

// recordUnit is the unit of the first record of a list that is sound.
func recordUnit(list []byte) uint32 {
	_, n := binary.Uvarint(list)
	unit, _ := binary.Uvarint(list[n:])
	return uint32(unit)
}

// recordSize is how many bytes the first record of a list that is sound takes.
func recordSize(list []byte) int {
	size, n := binary.Uvarint(list)
	return n + int(size)
}

// Whole numbers and short fractions are bits followed by many zeroes: turned round, a short varint.
// Others take eight bytes as they are.
func appendNarrow(dst []byte, v float64, wide *byte, i int) []byte {
	at := len(dst)
	dst = binary.AppendUvarint(dst, bits.ReverseBytes64(math.Float64bits(v)))
	if len(dst)-at > 8 {
		*wide |= 1 << i
		return blob.AppendFloat(dst[:at], v)
	}
	return dst
}

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

// record makes a distribution the record of a unit. It is good until the next one is made.
func (d *distribution) record(unit uint32) []byte {
	const head = 2 * binary.MaxVarintLen32 // what size and unit take at most
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

// each calls f for every record of a unit from first on.
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

// since is the records of all units from first on, and how many they are.
func (s *timerSlots) since(first uint32) (records []byte, n uint32) {
	records, n = s.records, s.count
	for len(records) > 0 && recordUnit(records) < first {
		records, n = records[recordSize(records):], n-1
	}
	return records, n
}

// oldest is the unit of the oldest record.
func (s *timerSlots) oldest() uint32 {
	if s.count == 0 {
		return 0
	}
	return recordUnit(s.records)
}

// note appends the record of a unit, or replaces the newest if it is of the same unit. Beyond most,
// the oldest is dropped.
func (s *timerSlots) note(unit uint32, rec []byte, most int) {
	if unit != s.newest {
		if int(s.count) == most {
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

// put truncates the records at a place and appends one, with a little spare capacity.
func (s *timerSlots) put(at int, rec []byte) {
	need := at + len(rec)
	if have := cap(s.records); need > have || have > 2*need+slotSlack {
		s.records = append(append([]byte(nil), make([]byte, need+need/16)...)[:0], s.records[:at]...)
	}
	s.records = append(s.records[:at], rec...)
}

// slotSlack is how much more than twice what is used may stay unused.
const slotSlack = 512

// newestRecord is the newest record. There is one.
func (s *timerSlots) newestRecord() timerRecord {
	rec, _, _ := cutRecord(s.records[s.last:])
	return rec
}

const slotsBytes = int64(unsafe.Sizeof(timerSlots{}))
