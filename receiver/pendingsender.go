package receiver

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// heldSender is what is held of one sender: its lines, each once, and what came of them.
type heldSender struct {
	sender  metric.Sender
	unnamed bool // nobody said who sent it
	index   map[lineKey]uint32
	lines   []heldLine
	cells   []cell
	next    uint64 // order of the next sample
	unsort  bool   // cells are not in the order of their newest sample
	bytes   int64  // what was charged
}

// heldLine is all of a sample but its value.
type heldLine struct {
	account *Account
	packed  []byte // see appendLine; never changed
	last    uint32 // its newest cell
	round   uint64 // the last retrial in which it was still pending
}

// lineKey finds a line; packed views the line's own bytes.
type lineKey struct {
	account *Account
	packed  string
}

// cell is the value of one sample of a line, or of several of one second that say as much together: a counter's sum, a
// gauge's last value, a set's member, an end.
type cell struct {
	line     uint32
	n        uint32        // samples; 0: settled
	order    uint64        // of its newest sample
	at       time.Duration // when that came, since the start
	whole    int64
	fraction float64
}

// What is charged; a map's and a slice's spare room included.
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

func (h *heldSender) find(a *Account, packed []byte) (line uint32, ok bool) {
	line, ok = h.index[lineKey{a, metric.Borrow(packed)}]
	return line, ok
}

// addLine adds a line that is not there yet, and keeps its bytes.
func (h *heldSender) addLine(a *Account, packed []byte) uint32 {
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

// merge adds a sample to the newest cell of its line, if it can.
func (h *heldSender) merge(line uint32, s *metric.Sample, at time.Duration) bool {
	last := h.lines[line].last
	c := &h.cells[last]
	if c.at/time.Second != at/time.Second || c.n == math.MaxUint32 || !c.merge(s) {
		return false
	}
	c.n++
	c.at, c.order = at, h.next
	h.next++
	h.unsort = h.unsort || int(last) != len(h.cells)-1
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
	case metric.Insert, metric.MarkStale: // the member is the line's, and an end has no value
	default:
		return false
	}
	return true
}

// maxAddable is well below what the table takes as one increment, so that no sum is refused whose parts would not be, and
// below what a float64 holds exactly.
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

// sort puts the cells in the order of their newest samples: of a gauge that was assigned, shifted and assigned again the
// last value must come last, however its lines are spelled.
func (h *heldSender) sort() {
	if !h.unsort {
		return
	}
	slices.SortFunc(h.cells, func(a, b cell) int { return cmp.Compare(a.order, b.order) })
	for i := range h.cells {
		h.lines[h.cells[i].line].last = uint32(i)
	}
	h.unsort = false
}

// absorb adds what another one still holds, behind what is there, and charges it.
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
