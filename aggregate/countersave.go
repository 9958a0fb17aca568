package aggregate

import (
	"encoding/binary"
	"math/bits"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Parts of a counter's value beyond its whole units.
const (
	hasFraction = 1 << iota
	hasRunning
	inNanos // their fractions are billionths, and not units of 2^-32 as up to the fourth format
)

func (counterKind) saveLocked(e *env, dst []byte, h handle, since, _ uint32) []byte {
	c, body := h.cell, h.body()
	dst = c.history.Append(dst, e.logs, window.WholeCoding, since)
	has := byte(0)
	if body != nil && body.fraction.usedLocked() {
		has |= hasFraction | inNanos
	}
	if body != nil && body.running != nil {
		has |= hasRunning | inNanos
	}
	dst = append(dst, has)
	if has&hasFraction != 0 {
		dst = binary.AppendUvarint(dst, uint64(body.fraction.history.Stamp))
		dst = body.fraction.history.Append(dst, e.logs, window.WholeCoding, since)
	}
	if has&hasRunning != 0 {
		dst = body.running.append(dst)
	}
	return dst
}

func (r *running) append(dst []byte) []byte {
	for _, one := range []sum{r.client, r.remainder} {
		dst = binary.AppendUvarint(binary.AppendVarint(dst, one.whole), one.fraction)
	}
	return r.origin.append(dst)
}

func (o *origin) append(dst []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(dst, o.started), o.at)
}

func (counterKind) restore(r *restoring, d *blob.Decoder, h handle, stamp uint32) {
	c := h.cell
	r.History(d, window.WholeCoding, &c.history, stamp)
	c.value.Store(c.history.Newest)
	has := d.Byte()
	read := grid{r.History, readSum}
	if has&inNanos == 0 {
		read = grid{r.binaryPast, readBinarySum}
	}
	if has&hasFraction != 0 {
		body := h.makeBody(newFraction)
		read.past(d, window.WholeCoding, &body.fraction.history, d.Uint32())
		body.fraction.units.Store(int64(body.fraction.history.Newest))
	}
	if has&hasRunning != 0 {
		one := &running{client: read.sum(d), remainder: read.sum(d), origin: readOrigin(d)}
		h.makeBody(newFraction).running = one
	}
	if has > hasFraction|hasRunning|inNanos {
		d.Fail()
	}
}

func (counterKind) restoreNumber(_ *blob.Decoder, h handle) {
	h.cell.value.Store(h.cell.history.Newest)
}

func readSum(d *blob.Decoder) sum {
	s := sum{d.Varint(), d.Uvarint()}
	if s.fraction >= fractionUnits {
		d.Fail()
	}
	return s
}

func readOrigin(d *blob.Decoder) origin { return origin{started: d.Varint(), at: d.Varint()} }

// Up to the fourth format fractions were in units of 2^-32. They are read to the nearest billionth, history and all, so what is
// counted in a window goes on across the upgrade.

// grid is how fractions are read.
type grid struct {
	past func(d *blob.Decoder, c window.Coding, p *window.History, stamp uint32)
	sum  func(d *blob.Decoder) sum
}

const binaryUnits = 1 << 32

// decimalUnits is units of 2^-32 in billionths.
func decimalUnits(binary uint64) uint64 {
	high, low := bits.Mul64(binary, fractionUnits)
	low, carry := bits.Add64(low, binaryUnits/2, 0)
	return (high+carry)<<32 | low>>32
}

// binaryPast reads a fraction's notes in units of 2^-32: into a past of their own first.
func (r *restoring) binaryPast(d *blob.Decoder, c window.Coding, p *window.History, stamp uint32) {
	var binary window.History
	defer binary.FreeLog(r.logs)
	if r.History(d, c, &binary, stamp); d.Err != nil {
		return
	}
	for _, one := range binary.Read(r.logs, c, nil) {
		if one.Tick >= p.Stamp {
			p.Record(r.logs, c, one.Tick, decimalUnits(one.Value))
		}
	}
}

func readBinarySum(d *blob.Decoder) (s sum) {
	whole, fraction := d.Varint(), d.Uvarint()
	if fraction >= binaryUnits {
		d.Fail()
		return sum{}
	}
	s.add(whole, decimalUnits(fraction))
	return s
}
