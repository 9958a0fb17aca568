package window

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

// Forms of the data after the newest entry of a saved history.
const (
	historyAlone = iota // no data
	historyAges         // first format: unordered values with their ages
	historyUnits        // up to the fourth format: values of all units
	historySteps        // habit, number of earlier entries, and the steps back to them
)

// Append appends the newest entry and, if there is a log, the entries from a tick on.
func (p *History) Append(dst []byte, n *Logs, c Coding, since uint32) []byte {
	dst = binary.AppendUvarint(dst, p.Newest)
	if p.log == 0 {
		return append(dst, historyAlone)
	}
	habit := p.Habit(n, since > 0)
	all := p.Since(n, c, since, habit, nil)
	dst = binary.AppendUvarint(append(dst, historySteps, habit), uint64(len(all)-1))
	return c.AppendEarlier(dst, p.Stamp, all)
}

// Since appends the entries from a tick on, the oldest first, and always the newest. If habit marks
// the log as shifted, it appends all entries.
func (p *History) Since(n *Logs, c Coding, tick uint32, habit uint8, all []Entry) []Entry {
	if habit&habitShifted != 0 {
		return p.Read(n, c, all)
	}
	if p.log == 0 || n.head(p.log).newestAlone(tick) {
		stamp := p.Stamp
		if p.log != 0 {
			stamp = n.head(p.log).stamp
		}
		return append(all, Entry{stamp, p.Newest})
	}
	if before, two := n.head(p.log).newestTwo(p.Newest, c, tick); two {
		return append(all, before, Entry{n.head(p.log).stamp, p.Newest})
	}
	first := len(all)
	all = p.Read(n, c, all)
	older := first
	for older < len(all)-1 && all[older].Tick < tick {
		older++
	}
	return slices.Delete(all, first, older) // moved, so that the caller keeps the whole of its buffer
}

// A habit is a byte that is saved with the entries of a log: the number of newest entries that
// changed only once in their tick, and habitShifted if the entries replace the saved ones. In a
// delta, the number is rounded down to a power of two, so most histories of a run have equal habits.
const habitShifted = 0x80

// Habit returns the habit to save. A delta calls it once per history, which clears the shifted
// mark.
func (p *History) Habit(n *Logs, delta bool) (habit uint8) {
	habit = p.Singles(n)
	if !delta {
		return habit
	}
	if habit > 0 {
		habit = 1 << (bits.Len8(habit) - 1)
	}
	if p.log == 0 || !n.head(p.log).shifted {
		return habit
	}
	n.head(p.log).shifted = false
	return habit | habitShifted
}

// newestAlone reports whether all entries but the newest are older than a tick.
func (h *logHead) newestAlone(tick uint32) bool {
	if h.end == 0 {
		return h.stamp < tick
	}
	pause, _, _ := decodeStep(h.steps()[h.last:h.end])
	return h.stamp-pause < tick
}

// newestTwo returns the second newest entry, and whether all entries before it are older than a
// tick. A delta saves two entries of most series that change in every tick, and the log would have
// to be decoded from its beginning.
func (h *logHead) newestTwo(newest uint64, c Coding, tick uint32) (before Entry, two bool) {
	if h.before == 0 {
		return Entry{}, false
	}
	steps := h.steps()[:h.end]
	pause, change, _ := decodeStep(steps[h.last:])
	before = Entry{h.stamp - pause, newest - c.Unpack(change)}
	pause, _, _ = decodeStep(steps[h.last-uint16(h.before):])
	return before, before.Tick-pause < tick
}

// AppendEarlier appends the steps back from the newest entry. Gauges and timers have the ticks
// between that entry and the stamp first.
func (c Coding) AppendEarlier(dst []byte, stamp uint32, all []Entry) []byte {
	if c != WholeCoding {
		dst = binary.AppendUvarint(dst, uint64(stamp-all[len(all)-1].Tick))
	}
	for i := len(all) - 1; i > 0; i-- {
		dst = binary.AppendUvarint(dst, uint64(all[i].Tick-all[i-1].Tick))
		dst = c.Append(dst, all[i].Value-all[i-1].Value)
	}
	return dst
}

// Formats up to the fourth had no logs. They saved the value at the end of each unit of each
// window. This file reads them; nothing writes them.

// unitValue is the value at the end of a unit of a span.
type unitValue struct {
	span  int
	age   uint64 // in units, before the unit of the newest entry
	value uint64
}

// mostUnitValues exceeds the number of unit values that any format saved for one number.
const mostUnitValues = 4096

// BeginUnits starts with the next number.
func (r *Reader) BeginUnits() { r.unitValues = r.unitValues[:0] }

// AddUnitValue adds the value at the end of an earlier unit.
func (r *Reader) AddUnitValue(span int, age, v uint64) {
	if age > 0 && len(r.unitValues) < mostUnitValues {
		r.unitValues = append(r.unitValues, unitValue{span, age, v})
	}
}

// units reads the values at the end of each unit of a span as differences, the oldest first.
func (r *Reader) units(d *blob.Decoder, span int, rolled uint64) {
	v := rolled
	for age := d.Uvarint(); age > 0 && d.Err == nil; age-- {
		v += uint64(d.Varint())
		r.AddUnitValue(span, age-1, v)
	}
}

// agesOfUnits reads the first format, which saved only units with a change.
func (r *Reader) agesOfUnits(d *blob.Decoder, span int, rolled uint64) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		age := d.Uvarint()
		r.AddUnitValue(span, age, rolled-uint64(d.Varint()))
	}
}

// UnitEntries restores the values that were read as entries of the last ticks of their units.
func (r *Reader) UnitEntries(d *blob.Decoder, c Coding, p *History, stamp uint32, rolled uint64) {
	if stamp == 0 || d.Err != nil {
		return
	}
	var all []Entry
	for _, u := range r.unitValues {
		stride := uint64(r.Strides[u.span])
		if newest := uint64(stamp) / stride; u.age <= newest && newest-u.age > 0 {
			all = append(all, Entry{uint32((newest-u.age+1)*stride - 1), u.value})
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return int(a.Tick) - int(b.Tick) })
	r.steps, r.settled = r.steps[:0], 0
	at := Entry{stamp, rolled}
	for i, entry := range slices.Backward(all) {
		if entry.Tick < at.Tick && (entry.Value != at.Value || i == 0) {
			r.steps = append(r.steps, Entry{at.Tick - entry.Tick, at.Value - entry.Value})
			at = entry
		}
	}
	r.RestoreEntries(d, c, p, stamp, rolled, 0)
}

// Coding maps changes of a number to small integers, so that small changes take few bytes in logs
// and on disk. Differences wrap, so each coding is exact for every pair of values.
type Coding uint8

const (
	WholeCoding  Coding = iota // counters: a signed difference
	FloatCoding                // gauges: bits of a float64, which mostly end in zeroes
	WeightCoding               // weights of timers: bits of a float64
)

func (c Coding) pack(v uint64) uint64 {
	if c != WholeCoding {
		return bits.Reverse64(v)
	}
	return v<<1 ^ uint64(int64(v)>>63)
}

// Unpack reverses pack.
func (c Coding) Unpack(v uint64) uint64 {
	if c != WholeCoding {
		return bits.Reverse64(v)
	}
	return v>>1 ^ -(v & 1)
}

// Append appends a packed change as a varint.
func (c Coding) Append(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, c.pack(v)) }
