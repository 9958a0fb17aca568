package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

const modelSlots = 1024

// A modelTable is the simplest implementation of Table. It remembers every state in which a block
// was written.
type modelTable struct {
	mu     sync.Mutex
	blocks []*modelBlock
	clock  uint64
	done   bool
	spoilt map[int]bool // blocks that refuse to be restored
	panics map[int]bool

	published atomic.Int64 // calls of AppendPublished
}

type modelSeries struct {
	name  string
	value string
}

type modelBlock struct {
	series       map[uint16]modelSeries
	changed      map[uint16]bool
	namesChanged bool
	history      []map[uint16]modelSeries // the state at every AppendDelta and AppendState
	flushed      int                      // index into history when the last flush was complete
}

func newModel(blocks int) *modelTable {
	m := &modelTable{clock: 1}
	m.add(blocks)
	return m
}

func (m *modelTable) add(blocks int) {
	for range blocks {
		m.blocks = append(m.blocks, &modelBlock{series: map[uint16]modelSeries{}, changed: map[uint16]bool{}})
	}
}

// put sets the value of a series, and creates the series if it is missing.
func (m *modelTable) put(block int, slot uint16, name, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.blocks[block]
	b.namesChanged = b.namesChanged || b.series[slot].name != name
	b.series[slot] = modelSeries{name, value}
	b.changed[slot] = true
	m.clock++
}

func (m *modelTable) kill(block int, slot uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.blocks[block]
	if _, ok := b.series[slot]; ok {
		delete(b.series, slot)
		b.changed[slot], b.namesChanged = true, true
	}
}

// settle records that a flush is complete: older states must not return.
func (m *modelTable) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.blocks {
		b.flushed = max(0, len(b.history)-1)
	}
}

func (m *modelTable) Blocks() int { m.mu.Lock(); defer m.mu.Unlock(); return len(m.blocks) }

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func cutText(b []byte) (string, []byte, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || uint64(len(b)-size) < n {
		return "", nil, errors.New("text is cut short")
	}
	return string(b[size : size+int(n)]), b[size+int(n):], nil
}

func (m *modelTable) AppendDelta(dst []byte, block int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.blocks[block]
	for slot := range b.changed {
		series, alive := b.series[slot]
		dst = binary.BigEndian.AppendUint16(dst, slot)
		if !alive {
			dst = append(dst, 0)
			continue
		}
		dst = appendText(appendText(append(dst, 1), series.name), series.value)
	}
	clear(b.changed)
	b.history = append(b.history, maps.Clone(b.series))
	return dst
}

func (m *modelTable) AppendPublished(dst []byte, block int) []byte {
	m.published.Add(1)
	return m.AppendDelta(dst, block)
}

func (m *modelTable) AppendState(dst []byte, block int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.blocks[block]
	for slot, series := range b.series {
		dst = appendText(binary.BigEndian.AppendUint16(dst, slot), series.value)
	}
	b.history = append(b.history, maps.Clone(b.series))
	return dst
}

func (m *modelTable) NamesChanged(block int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocks[block].namesChanged
}

func (m *modelTable) AppendNames(dst []byte, block int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.blocks[block]
	for slot, series := range b.series {
		dst = appendText(binary.BigEndian.AppendUint16(dst, slot), series.name)
	}
	b.namesChanged = false
	return dst
}

func (m *modelTable) AppendClock(dst []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return binary.BigEndian.AppendUint64(dst, m.clock)
}

func (m *modelTable) RestoreClock(clock []byte) error {
	if len(clock) != 8 {
		return errors.New("not a clock")
	}
	m.clock = binary.BigEndian.Uint64(clock)
	return nil
}

func (m *modelTable) RestoreDone() error { m.done = true; return nil }

func (m *modelTable) RestoreBlock(block int, names, state []byte, deltas iter.Seq[[]byte]) error {
	m.mu.Lock()
	for len(m.blocks) <= block {
		m.add(1)
	}
	b := m.blocks[block]
	m.mu.Unlock()
	if m.panics[block] {
		panic("as told")
	}
	if m.spoilt[block] {
		return errors.New("spoilt, as told")
	}
	err := readPairs(names, func(slot uint16, text string) { b.series[slot] = modelSeries{name: text} })
	if err != nil {
		return err
	}
	err = readPairs(state, func(slot uint16, text string) {
		b.series[slot] = modelSeries{b.series[slot].name, text}
	})
	if err != nil {
		return err
	}
	for d := range deltas {
		if err := b.replay(d); err != nil {
			return err
		}
	}
	return nil
}

func readPairs(b []byte, each func(uint16, string)) (err error) {
	for len(b) > 0 {
		if len(b) < 2 {
			return errors.New("slot is cut short")
		}
		slot, text := binary.BigEndian.Uint16(b), ""
		if text, b, err = cutText(b[2:]); err != nil {
			return err
		}
		each(slot, text)
	}
	return nil
}

func (b *modelBlock) replay(d []byte) (err error) {
	for len(d) > 0 {
		if len(d) < 3 {
			return errors.New("delta is cut short")
		}
		slot, alive := binary.BigEndian.Uint16(d), d[2]
		d = d[3:]
		if alive == 0 {
			delete(b.series, slot)
			continue
		}
		var series modelSeries
		if series.name, d, err = cutText(d); err != nil {
			return err
		}
		if series.value, d, err = cutText(d); err != nil {
			return err
		}
		b.series[slot] = series
	}
	return nil
}

// randomOps changes some blocks at random. Every fifth block has values so long that it has
// several parts.
func (m *modelTable) randomOps(r *rand.Rand, ops int) {
	for range ops {
		block := r.IntN(len(m.blocks))
		slot := uint16(r.IntN(modelSlots))
		size := 1 + r.IntN(20)
		if block%5 == 0 {
			size = r.IntN(40_000)
		}
		switch r.IntN(10) {
		case 0:
			m.kill(block, slot)
		case 1, 2:
			m.put(block, slot, fmt.Sprintf("name.%d.%d.%d", block, slot, r.IntN(1000)), randomText(r, size))
		default:
			m.mu.Lock()
			name := m.blocks[block].series[slot].name
			m.mu.Unlock()
			if name == "" {
				name = fmt.Sprintf("name.%d.%d", block, slot)
			}
			m.put(block, slot, name, randomText(r, size))
		}
	}
}

func randomText(r *rand.Rand, size int) string {
	b := make([]byte, size)
	for i := 0; i < size; i += 1 + size/16 {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// mustDescend checks that every block of a restored table is in a state that it once had, none
// older than its last complete flush (S1, S5).
func (m *modelTable) mustDescend(t testing.TB, got *modelTable) {
	t.Helper()
	if !got.done {
		t.Fatal("RestoreDone was not called")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range m.blocks {
		if i >= len(got.blocks) {
			if slices.ContainsFunc(b.history[b.flushed:], func(s map[uint16]modelSeries) bool { return len(s) == 0 }) {
				continue
			}
			t.Fatalf("block %d was not restored", i)
		}
		restored := got.blocks[i].series
		same := func(s map[uint16]modelSeries) bool { return maps.Equal(s, restored) }
		if slices.ContainsFunc(b.history[b.flushed:], same) {
			continue
		}
		if slices.ContainsFunc(b.history, same) {
			t.Fatalf("block %d was restored to a state before the last complete flush", i)
		}
		t.Fatalf("block %d was restored to a state that it never had: %d series", i, len(restored))
	}
}

// mustEqual checks that a restored table is exactly this one.
func (m *modelTable) mustEqual(t testing.TB, got *modelTable) {
	t.Helper()
	for i, b := range m.blocks {
		if i >= len(got.blocks) {
			if len(b.series) > 0 {
				t.Fatalf("block %d was not restored", i)
			}
			continue
		}
		if !maps.Equal(b.series, got.blocks[i].series) {
			t.Fatalf("block %d differs: %d series, restored %d", i, len(b.series), len(got.blocks[i].series))
		}
	}
}
