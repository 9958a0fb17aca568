package kind

import (
	"encoding/binary"
	"math/bits"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Parts of a counter's value beyond its whole units.
const (
	HasFraction = 1 << iota
	hasRunning
	InNanos // their fractions are billionths, and not units of 2^-32 as up to the fourth format
)

func (counterKind) SaveLocked(e *Env, dst []byte, h Series, since, _ uint32) []byte {
	c, body := h.Cell, h.body()
	dst = c.History.Append(dst, e.Logs, window.WholeCoding, since)
	has := byte(0)
	if body != nil && body.Fraction.usedLocked() {
		has |= HasFraction | InNanos
	}
	if body != nil && body.running != nil {
		has |= hasRunning | InNanos
	}
	dst = append(dst, has)
	if has&HasFraction != 0 {
		dst = binary.AppendUvarint(dst, uint64(body.Fraction.History.Stamp))
		dst = body.Fraction.History.Append(dst, e.Logs, window.WholeCoding, since)
	}
	if has&hasRunning != 0 {
		dst = body.running.append(dst)
	}
	return dst
}

func (r *running) append(dst []byte) []byte {
	for _, one := range []Sum{r.client, r.remainder} {
		dst = binary.AppendUvarint(binary.AppendVarint(dst, one.Whole), one.Fraction)
	}
	return r.origin.append(dst)
}

func (o *origin) append(dst []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(dst, o.started), o.at)
}

func (counterKind) Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32) {
	c := h.Cell
	r.History(d, window.WholeCoding, &c.History, stamp)
	c.Value.Store(c.History.Newest)
	has := d.Byte()
	read := grid{r.History, readSum}
	if has&InNanos == 0 {
		read = grid{r.binaryPast, readBinarySum}
	}
	if has&HasFraction != 0 {
		body := h.makeBody(newFraction)
		read.past(d, window.WholeCoding, &body.Fraction.History, d.Uint32())
		body.Fraction.units.Store(int64(body.Fraction.History.Newest))
	}
	if has&hasRunning != 0 {
		one := &running{client: read.sum(d), remainder: read.sum(d), origin: readOrigin(d)}
		h.makeBody(newFraction).running = one
	}
	if has > HasFraction|hasRunning|InNanos {
		d.Fail()
	}
}

func (counterKind) RestoreNumber(_ *blob.Decoder, h Series) {
	h.Cell.Value.Store(h.Cell.History.Newest)
}

func readSum(d *blob.Decoder) Sum {
	s := Sum{d.Varint(), d.Uvarint()}
	if s.Fraction >= FractionUnits {
		d.Fail()
	}
	return s
}

func readOrigin(d *blob.Decoder) origin { return origin{started: d.Varint(), at: d.Varint()} }

// Up to the fourth format fractions were in units of 2^-32. They are read to the nearest billionth,
// history and all, so what is counted in a window goes on across the upgrade.

// grid is how fractions are read.
type grid struct {
	past func(d *blob.Decoder, c window.Coding, p *window.History, stamp uint32)
	sum  func(d *blob.Decoder) Sum
}

const binaryUnits = 1 << 32

// decimalUnits is units of 2^-32 in billionths.
func decimalUnits(binary uint64) uint64 {
	high, low := bits.Mul64(binary, FractionUnits)
	low, carry := bits.Add64(low, binaryUnits/2, 0)
	return (high+carry)<<32 | low>>32
}

// binaryPast reads a fraction's notes in units of 2^-32: into a past of their own first.
func (r *Restorer) binaryPast(d *blob.Decoder, c window.Coding, p *window.History, stamp uint32) {
	var binary window.History
	defer binary.FreeLog(r.Env.Logs)
	if r.History(d, c, &binary, stamp); d.Err != nil {
		return
	}
	for _, one := range binary.Read(r.Env.Logs, c, nil) {
		if one.Tick >= p.Stamp {
			p.Record(r.Env.Logs, c, one.Tick, decimalUnits(one.Value))
		}
	}
}

func readBinarySum(d *blob.Decoder) (s Sum) {
	whole, fraction := d.Varint(), d.Uvarint()
	if fraction >= binaryUnits {
		d.Fail()
		return Sum{}
	}
	s.Add(whole, decimalUnits(fraction))
	return s
}
