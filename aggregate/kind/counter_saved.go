package kind

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// Flags of the parts of a saved counter beyond the history of its whole units.
const (
	HasFraction = 1 << iota
	hasRunning
	InNanos  // fractions are in billionths; up to the fourth format they were units of 2^-32
	hasMoved // a replica's running total: what arrived elsewhere, and the number of pushes
	hasFallen
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
		if e.Replicated {
			has |= hasMoved
		}
	}
	if body != nil && body.Fraction.fell {
		has |= hasFallen
	}
	dst = append(dst, has)
	if has&HasFraction != 0 {
		dst = binary.AppendUvarint(dst, uint64(body.Fraction.History.Stamp))
		dst = body.Fraction.History.Append(dst, e.Logs, window.WholeCoding, since)
	}
	if has&hasRunning != 0 {
		dst = body.running.append(dst)
	}
	if has&hasMoved != 0 {
		dst = body.running.appendMoves(body.running.elsewhere.append(dst))
	}
	return dst
}

func (r *running) append(dst []byte) []byte {
	return r.progress.append(r.remainder.append(r.client.append(dst)))
}

func (s Sum) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendVarint(dst, s.Whole), s.Fraction)
}

func (o *progress) append(dst []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(dst, o.started), o.at)
}

func (counterKind) Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32) {
	c := h.Cell
	r.History(d, window.WholeCoding, &c.History, stamp)
	c.Value.Store(c.History.Newest)
	has := d.Byte()
	read := fractionReader{r.History, readSum}
	if has&InNanos == 0 {
		read = fractionReader{r.binaryHistory, readBinarySum}
	}
	if has&HasFraction != 0 {
		body := h.makeBody(newFraction)
		read.history(d, window.WholeCoding, &body.Fraction.History, d.Uint32())
		body.Fraction.units.Store(int64(body.Fraction.History.Newest))
	}
	if has&hasRunning != 0 {
		one := &running{client: read.sum(d), remainder: read.sum(d), progress: readProgress(d)}
		if has&hasMoved != 0 {
			one.elsewhere = readSum(d)
			one.readMoves(d)
		}
		h.makeBody(newFraction).running = one
	}
	if has&hasFallen != 0 {
		h.fellLocked()
	}
	if has >= hasFallen<<1 || has&(hasRunning|hasMoved) == hasMoved {
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

// readOrigin reads the output of origin.append. Up to the fifth format, dates were in seconds.
func readProgress(d *blob.Decoder) progress {
	o := progress{started: d.Varint(), at: d.Varint()}
	if -dateSeconds < o.at && o.at < dateSeconds {
		o.at *= int64(time.Second)
	}
	return o
}

// dateSeconds exceeds all dates in seconds. Dates in nanoseconds exceed it after the first seconds
// of 1970.
const dateSeconds = math.MaxInt64 / int64(time.Second)

// fractionReader reads fractions of one format. Up to the fourth format, fractions were in units of
// 2^-32. Those are rounded to the nearest billionth, with their history, so windows continue across
// the upgrade.
type fractionReader struct {
	history func(d *blob.Decoder, c window.Coding, p *window.History, stamp uint32)
	sum     func(d *blob.Decoder) Sum
}

const binaryUnits = 1 << 32

// decimalUnits converts units of 2^-32 to the nearest billionth.
func decimalUnits(binary uint64) uint64 {
	high, low := bits.Mul64(binary, FractionUnits)
	low, carry := bits.Add64(low, binaryUnits/2, 0)
	return (high+carry)<<32 | low>>32
}

// binaryHistory reads the history of a fraction in units of 2^-32 and converts each entry.
func (r *Restorer) binaryHistory(d *blob.Decoder, c window.Coding, p *window.History, stamp uint32) {
	var binary window.History
	defer binary.FreeLog(r.Env.Logs)
	if r.History(d, c, &binary, stamp); d.Err != nil {
		return
	}
	for _, entry := range binary.Read(r.Env.Logs, c, nil) {
		if entry.Tick >= p.Stamp {
			p.Record(r.Env.Logs, c, entry.Tick, decimalUnits(entry.Value))
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

// fraction is the sum of the fractional parts of a counter's increments, in billionths. Most
// counters get whole increments only and need none.
type fraction struct {
	units   atomic.Int64
	History window.History // guarded by the history lock
	// fell is set once the counter has fallen, by an increment below 0; guarded by the history lock.
	fell bool
}

func newFraction() *Body { return &Body{Fraction: new(fraction)} }

// usedLocked reports whether any increment had a fractional part. A counter with whole running
// totals has an unused fraction, which needs no history.
func (f *fraction) usedLocked() bool { return f.History.Stamp != 0 || f.units.Load() != 0 }

// carryAt is the size of the fraction from which the roller carries whole units into the cell. It
// is far below the largest int64.
const carryAt = 1 << 62

// carryLocked moves whole units from the fraction into the cell. Readers hold the history lock, so
// none sees the state between the two additions. Concurrent additions of writers commute with it.
func (f *fraction) carryLocked(c *Cell) {
	if units := f.units.Load(); units >= carryAt {
		whole := units / FractionUnits
		c.Value.Add(uint64(whole))
		f.units.Add(-whole * FractionUnits)
	}
}
