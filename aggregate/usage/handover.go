package usage

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// ContainerHistory is what a Tracker knows of a container, for the Tracker of the node's next agent. CPU, Memory and
// Measured are for Import alone.
type ContainerHistory struct {
	Container   metric.Container
	CPU, Memory []byte
	// Measured are the measurements from which the next ones count. Agents of earlier versions hand none over.
	Measured []byte
}

// Export returns all histories.
func (t *Tracker) Export() []ContainerHistory {
	all := make([]ContainerHistory, 0, len(t.containers))
	for name, c := range t.containers {
		if !c.step.last.CPUAt.IsZero() {
			c.endStep(c.step.last)
		}
		all = append(all, ContainerHistory{name, c.cpu.append(nil), c.memory.append(nil), c.appendMeasured(nil)})
	}
	return all
}

// Import puts the histories of another Tracker before those of this one. A faulty history is left out; the
// first fault is returned.
func (t *Tracker) Import(all []ContainerHistory, now time.Time) (fault error) {
	for _, one := range all {
		var former tracked
		err := errors.Join(former.cpu.parse(one.CPU), former.memory.parse(one.Memory), former.parseMeasured(one.Measured))
		if err != nil {
			if fault == nil {
				fault = err
			}
			continue
		}
		c := t.containers[one.Container]
		if c == nil {
			c = &tracked{seen: now}
			t.containers[one.Container] = c
		}
		c.continues(&former, one.Container.Pod == "")
	}
	return fault
}

// continues puts what a former Tracker knew of a container before what this one does. Both may have measured for a
// while: the next point begins where the newest one of both ends.
func (c *tracked) continues(former *tracked, node bool) {
	c.cpu.continues(former.cpu)
	c.memory.continues(former.memory)
	c.changed = true
	if former.base.CPUAt.After(c.base.CPUAt) {
		c.base.CPU, c.base.CPUAt = former.base.CPU, former.base.CPUAt
	}
	if former.base.MemoryAt.After(c.base.MemoryAt) {
		c.base.MemoryAt = former.base.MemoryAt
		c.step.memory = float64(c.step.last.Memory) * c.step.last.MemoryAt.Sub(c.base.MemoryAt).Seconds()
	}
	if former.last == nil {
		return
	}
	own := []*metric.UsageReading{c.previous, c.last}
	c.last, c.previous = former.last, former.previous
	for _, r := range own {
		if r != nil && r.CPUAt.After(c.last.CPUAt) {
			c.compare(*r, node)
		}
	}
}

// continues puts an older history before this one, which is younger than an hour.
func (h *History) continues(older History) {
	if len(older.points) == 0 {
		return
	}
	newer := h.points
	*h = older
	for _, p := range newer {
		h.Add(Point{time.UnixMilli(p.from()), time.UnixMilli(p.to), float64(p.value)})
	}
}

// append appends the history as varints and float32s: its beginning, its points, its parts, and their bins. Moments
// are differences.
func (h *History) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, h.begin)
	dst = binary.AppendUvarint(dst, uint64(len(h.points)))
	last := h.begin
	for _, p := range h.points {
		dst = binary.AppendUvarint(binary.AppendVarint(dst, p.to-last), uint64(p.length))
		dst = appendFloat(dst, p.value)
		last = p.to
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.parts)))
	last = h.begin
	for _, p := range h.parts {
		dst = binary.AppendVarint(dst, p.start-last)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(p.weight)), uint64(p.bins))
		dst = appendFloat(appendFloat(dst, p.mean), p.max)
		last = p.start
	}
	for _, b := range h.bins {
		dst = binary.AppendUvarint(binary.AppendVarint(dst, int64(b.index)), uint64(b.weight))
	}
	return dst
}

func appendFloat(dst []byte, v float32) []byte {
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
}

// appendMeasured appends base, and the measurements that Newest compares, as far as there are any.
func (c *tracked) appendMeasured(dst []byte) []byte {
	dst = appendReading(dst, &c.base)
	for _, r := range []*metric.UsageReading{c.last, c.previous} {
		if r != nil {
			dst = appendReading(dst, r)
		}
	}
	return dst
}

// appendReading appends a measurement as varints, its moments in milliseconds. One that is not known is 0.
func appendReading(dst []byte, m *metric.UsageReading) []byte {
	for _, at := range []time.Time{m.Started, m.CPUAt, m.MemoryAt} {
		if at.IsZero() {
			at = time.UnixMilli(0)
		}
		dst = binary.AppendVarint(dst, at.UnixMilli())
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(m.CPU)), m.Memory)
}

// parseMeasured reads the output of appendMeasured, or nothing.
func (c *tracked) parseMeasured(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	r := historyReader{text: text}
	base := r.reading()
	var both [2]*metric.UsageReading
	for i := 0; i < len(both) && len(r.text) > 0; i++ {
		one := r.reading()
		both[i] = &one
	}
	if r.bad || len(r.text) > 0 {
		return errHistory
	}
	c.base, c.last, c.previous = base, both[0], both[1]
	return nil
}

func (r *historyReader) reading() (m metric.UsageReading) {
	for _, at := range []*time.Time{&m.Started, &m.CPUAt, &m.MemoryAt} {
		if milli := r.moment(0); milli != 0 {
			*at = time.UnixMilli(milli)
		}
	}
	m.CPU, m.Memory = time.Duration(r.most(math.MaxInt64)), r.most(math.MaxUint64)
	return m
}

var errHistory = errors.New("a history is damaged")

// parse reads the output of append into an empty history. The output of another version may be an error;
// then nothing is read.
func (h *History) parse(text []byte) error {
	r := historyReader{text: text}
	read := History{begin: r.moment(0)}
	last := read.begin
	for range r.count() {
		p := point{to: r.moment(last), length: uint32(r.most(longestPoint)), value: r.float()}
		r.bad = r.bad || p.length == 0 || len(read.points) > 0 && p.from() < last
		read.points, last = append(read.points, p), p.to
	}
	last = read.begin
	bins := 0
	for range r.count() {
		p := part{start: r.moment(last), weight: uint32(r.most(longestPoint)), bins: uint16(r.most(math.MaxUint16)),
			mean: r.float(), max: r.float()}
		r.bad = r.bad || p.start%partLength != 0 || p.weight == 0 || len(read.parts) > 0 && p.start <= last
		read.parts, last, bins = append(read.parts, p), p.start, bins+int(p.bins)
	}
	for i := 0; i < bins && !r.bad; i++ {
		read.bins = append(read.bins, bin{int16(r.signed()), uint16(r.most(math.MaxUint16))})
	}
	if r.bad || len(r.text) > 0 {
		return errHistory
	}
	*h = read
	return nil
}

const (
	// longestPoint is longest, without a sign.
	longestPoint = uint64(longest)
	// lastMoment bounds moments, so that no sum of them overflows.
	lastMoment = 1 << 50
)

// historyReader reads numbers. Once one is missing or too large, it is bad, and reads zeros.
type historyReader struct {
	text []byte
	bad  bool
}

func (r *historyReader) signed() int64 {
	v, n := binary.Varint(r.text)
	return v * int64(r.take(n))
}

// moment reads a moment as the difference to another one.
func (r *historyReader) moment(after int64) int64 {
	at := after + r.signed()
	r.bad = r.bad || at < 0 || at > lastMoment
	return at
}

// most reads a number of a limit at most.
func (r *historyReader) most(limit uint64) uint64 {
	v, n := binary.Uvarint(r.text)
	ok := r.take(n)
	r.bad = r.bad || v > limit
	return v * uint64(ok)
}

// count reads how many elements follow, each of which takes some bytes.
func (r *historyReader) count() int {
	n := r.most(uint64(len(r.text)))
	if r.bad {
		return 0
	}
	return int(n)
}

// take drops n bytes, and returns 1, or 0 if they are not there.
func (r *historyReader) take(n int) int {
	if r.bad || n <= 0 || n > len(r.text) {
		r.bad = true
		return 0
	}
	r.text = r.text[n:]
	return 1
}

func (r *historyReader) float() float32 {
	if len(r.text) < 4 {
		r.bad = true
		return 0
	}
	v := math.Float32frombits(binary.LittleEndian.Uint32(r.text))
	r.text = r.text[4:]
	r.bad = r.bad || !(v >= 0 && v <= math.MaxFloat32)
	return v
}
