package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// modelTable is a table in small: blocks of counters. Its blobs are the values themselves.
type modelTable struct {
	blocks  []modelBlock
	at      uint64 // milliseconds of receiving time
	windows byte
}

type modelBlock struct {
	values  [4]uint64
	changed [4]bool
}

func (t *modelTable) add(block, place int, n uint64) {
	for len(t.blocks) <= block {
		t.blocks = append(t.blocks, modelBlock{})
	}
	t.blocks[block].values[place] += n
	t.blocks[block].changed[place] = true
}

func (t *modelTable) total() (sum uint64) {
	for i := range t.blocks {
		for _, v := range t.blocks[i].values {
			sum += v
		}
	}
	return sum
}

func (t *modelTable) clone() *modelTable {
	c := *t
	c.blocks = slices.Clone(t.blocks)
	for i := range c.blocks {
		c.blocks[i].changed = [4]bool{}
	}
	return &c
}

func (t *modelTable) Blocks() int { return len(t.blocks) }

func (t *modelTable) AppendClock(dst []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, t.at), t.windows)
}

func (t *modelTable) AppendBlockState(dst []byte, block int) []byte {
	dst = binary.BigEndian.AppendUint64(dst, t.at)
	for _, v := range t.blocks[block].values {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return dst
}

func (t *modelTable) AppendBlockNames(dst []byte, _ int) []byte { return append(dst, "names"...) }

// AppendDelta appends the values that changed, each with its place.
func (t *modelTable) AppendDelta(dst []byte, block int) []byte {
	b := &t.blocks[block]
	if b.changed == [4]bool{} {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(dst, t.at)
	for place, changed := range b.changed {
		if changed {
			dst = binary.BigEndian.AppendUint64(append(dst, byte(place)), b.values[place])
		}
	}
	b.changed = [4]bool{}
	return dst
}

// modelShadow is a shadow of a modelTable. It checks that values are never later than the clock.
type modelShadow struct {
	origin     string
	forged     bool // messages may be anything
	begun      bool
	ended      bool
	at         uint64
	windows    byte
	ran        bool
	correction time.Duration
	blocks     [][4]uint64
}

var errModel = errors.New("model: cannot be read")

func (s *modelShadow) Begin(clock []byte) error {
	if len(clock) != 9 || clock[8] > 9 {
		return errModel
	}
	s.begun, s.at, s.windows, s.blocks = true, binary.BigEndian.Uint64(clock), clock[8], nil
	return nil
}

func (s *modelShadow) Advance(clock []byte, correction time.Duration) error {
	s.check()
	s.correction = correction
	if len(clock) != 9 || clock[8] != s.windows {
		return errModel
	}
	s.at, s.ran = max(s.at, binary.BigEndian.Uint64(clock)), false
	return nil
}

func (s *modelShadow) AdvanceOf(clock []byte, correction time.Duration, _ time.Time, _ bool) error {
	return s.Advance(clock, correction)
}

func (s *modelShadow) Blocks() int { return len(s.blocks) }

func (s *modelShadow) AppendClock(dst []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, s.at), s.windows)
}

func (s *modelShadow) AppendBlockState(dst []byte, block int) []byte {
	t := modelTable{blocks: []modelBlock{{values: s.blocks[block]}}, at: s.at}
	return t.AppendBlockState(dst, 0)
}

func (s *modelShadow) AppendBlockNames(dst []byte, _ int) []byte { return append(dst, "names"...) }

func (s *modelShadow) check() {
	if !s.begun || s.ended {
		panic("model: a shadow is used before Begin or after End")
	}
}

func (s *modelShadow) SetLives(bool)    {}
func (s *modelShadow) LetRun(time.Time) { s.check(); s.ran = true }

func (s *modelShadow) End() { s.ended = true }

func (s *modelShadow) ReplaceBlock(block int, names, state []byte) error {
	s.check()
	for len(s.blocks) <= block {
		s.blocks = append(s.blocks, [4]uint64{})
	}
	if names == nil && state == nil {
		s.blocks[block] = [4]uint64{}
		return nil
	}
	if string(names) != "names" || len(state) != 40 {
		return errModel
	}
	if err := s.notLater(state); err != nil {
		return err
	}
	for i := range 4 {
		s.blocks[block][i] = binary.BigEndian.Uint64(state[8+8*i:])
	}
	return nil
}

func (s *modelShadow) ApplyDelta(block int, delta []byte) error {
	s.check()
	if block >= len(s.blocks) {
		return errModel
	}
	if len(delta) < 8 || (len(delta)-8)%9 != 0 {
		return errModel
	}
	if err := s.notLater(delta); err != nil {
		return err
	}
	for delta = delta[8:]; len(delta) > 0; delta = delta[9:] {
		if delta[0] > 3 {
			return errModel
		}
		s.blocks[block][delta[0]] = binary.BigEndian.Uint64(delta[1:])
	}
	return nil
}

// notLater rejects a value that is later than the clock. Replicas never apply one of each other's.
func (s *modelShadow) notLater(blob []byte) error {
	at := binary.BigEndian.Uint64(blob)
	if at <= s.at {
		return nil
	}
	if !s.forged {
		panic(fmt.Sprintf("model: a value of %d is applied at %d", at, s.at))
	}
	return errModel
}

func (s *modelShadow) total() (sum uint64) {
	for _, b := range s.blocks {
		for _, v := range b {
			sum += v
		}
	}
	return sum
}

func (s *modelShadow) Series() int  { return 4 * len(s.blocks) }
func (s *modelShadow) Bytes() int64 { return int64(32 * len(s.blocks)) }

func (s *modelShadow) Expired() bool { return s.total() == 0 }
