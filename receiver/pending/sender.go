package pending

import (
	"cmp"
	"hash/maphash"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// heldSender holds the pending samples of one sender: each line once, and the values of its
// samples.
type heldSender struct {
	sender   metric.Sender
	unnamed  bool // the samples have no sender
	index    map[lineKey]uint32
	lines    []heldLine
	cells    []cell
	next     uint64 // order of the next sample
	unsorted bool   // cells are not in the order of their newest sample
	bytes    int64  // charged memory
	trying   int64  // bytes of the same sender that Run is retrying, and puts back
}

// heldLine is a sample without its value.
type heldLine struct {
	account *ledger.Account
	packed  []byte // see appendLine; immutable
	last    uint32 // its newest cell
	round   uint64 // the last round in which it stayed pending
}

// lineKey finds a line; packed views the line's own bytes.
type lineKey struct {
	account *ledger.Account
	packed  string
}

// cell is the value of one sample of a line, or the merged value of several within one second: a
// counter's sum, a gauge's last value, a set's member, an end.
type cell struct {
	line     uint32
	n        uint32        // samples; 0: settled
	order    uint64        // of its newest sample
	at       time.Duration // arrival of the newest sample, since the start
	whole    int64
	fraction float64
}

// The charged sizes include the spare room of maps and slices.
const (
	senderBytes = 512
	lineBytes   = 160
	cellBytes   = 48
)

func newHeldSender(s *metric.Sender) *heldSender {
	h := &heldSender{index: map[lineKey]uint32{}, bytes: senderBytes, unnamed: s == nil}
	if s != nil {
		h.sender = *s
	}
	return h
}

func (h *heldSender) find(a *ledger.Account, packed []byte) (line uint32, ok bool) {
	line, ok = h.index[lineKey{a, metric.Borrow(packed)}]
	return line, ok
}

// addLine adds a new line, and retains its bytes.
func (h *heldSender) addLine(a *ledger.Account, packed []byte) uint32 {
	line := uint32(len(h.lines))
	h.lines = append(h.lines, heldLine{account: a, packed: packed})
	h.index[lineKey{a, metric.Borrow(packed)}] = line
	return line
}

func (h *heldSender) addCell(c cell) {
	c.order = h.next
	h.next++
	h.lines[c.line].last = uint32(len(h.cells))
	h.cells = append(h.cells, c)
}

// merge adds a sample to the newest cell of its line, if possible.
func (h *heldSender) merge(line uint32, s *metric.Sample, at time.Duration) bool {
	last := h.lines[line].last
	c := &h.cells[last]
	if c.at/time.Second != at/time.Second || c.n == math.MaxUint32 || !c.merge(s) {
		return false
	}
	c.n++
	c.at, c.order = at, h.next
	h.next++
	h.unsorted = h.unsorted || int(last) != len(h.cells)-1
	return true
}

func (c *cell) merge(s *metric.Sample) bool {
	switch s.Op {
	case metric.Add:
		whole, fraction := c.whole+s.Whole, c.fraction+s.Fraction
		weight := s.Weight()
		if !addable(c.whole, c.fraction, weight) || !addable(whole, fraction, weight) {
			return false
		}
		c.whole, c.fraction = normal(whole, fraction)
	case metric.Assign:
		c.whole, c.fraction = s.Whole, s.Fraction
	case metric.Insert, metric.MarkStale: // the line holds the member, and an end has no value
	default:
		return false
	}
	return true
}

// maxAddable is well below the largest increment that the table accepts, so that no sum is rejected
// whose parts would be applied. It is also below the integers that a float64 holds exactly.
const maxAddable = 1e15

func addable(whole int64, fraction, weight float64) bool {
	return math.Abs(float64(whole))*weight < maxAddable && math.Abs(fraction)*weight < maxAddable
}

// normal is a number in the two parts of a Sample: |fraction| < 1 and of the sign of whole.
func normal(whole int64, fraction float64) (int64, float64) {
	carry, rest := math.Modf(fraction)
	whole += int64(carry)
	switch {
	case whole > 0 && rest < 0:
		return whole - 1, rest + 1
	case whole < 0 && rest > 0:
		return whole + 1, rest - 1
	}
	return whole, rest
}

// sort orders the cells by their newest samples. Of a gauge that was assigned, shifted and assigned
// again, the last value must come last, however its lines are spelled.
func (h *heldSender) sort() {
	if !h.unsorted {
		return
	}
	slices.SortFunc(h.cells, func(a, b cell) int { return cmp.Compare(a.order, b.order) })
	for i := range h.cells {
		h.lines[h.cells[i].line].last = uint32(i)
	}
	h.unsorted = false
}

// absorb appends the unsettled cells of another heldSender, and charges them.
func (h *heldSender) absorb(o *heldSender) {
	o.sort()
	for _, c := range o.cells {
		if c.n == 0 {
			continue
		}
		from := &o.lines[c.line]
		line, known := h.find(from.account, from.packed)
		if !known {
			line = h.addLine(from.account, from.packed)
			h.bytes += lineBytes + int64(len(from.packed))
		}
		h.bytes += cellBytes
		c.line = line
		h.addCell(c)
	}
}

var addressSeed = maphash.MakeSeed()

// AddressKey is the Sender.Key of an address whose holder is unknown. It is the same in the whole
// process.
func AddressKey(a netip.Addr) uint64 {
	b := a.As16()
	return maphash.Bytes(addressSeed, b[:]) | metric.LocalKey
}
