package aggregate

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// sound fails unless index, slots and blocks of a shadow agree.
func (s *Shadow) sound(t testing.TB) {
	t.Helper()
	table, filed, loose := s.Table(), 0, 0
	for i := range table.Blocks() {
		b := table.blocks.at[i].Load()
		for place := range uint32(kind.BlockSeries) {
			sery := &b.series[place]
			switch {
			case sery.entry == nil:
				if b.page.cells[place].State.Load()&kind.Live != 0 {
					t.Errorf("block %d, place %d: live without a series", i, place)
				}
				continue
			case !sery.filed():
				loose++
				continue
			}
			filed++
			form := table.identityOf(sery)
			if to, _, there := table.locate(&form); !there || to.Number != uint32(i)<<kind.BlockBits|place || to.State != b.page.cells[place].State.Load() {
				t.Errorf("block %d, place %d: the slots lead to %v, %v", i, place, to, there)
			}
		}
	}
	found := 0
	for i := range table.index.Shards {
		for _, f := range table.index.Shards[i].All() {
			for _, r := range f.Series {
				if table.isLive(r) {
					found++
				}
			}
		}
	}
	if filed != table.Series() || found != filed || s.held != filed+loose || len(s.waiting) > loose {
		t.Errorf("%d series, %d filed, %d found, %d held, %d loose, %d waiting", table.Series(), filed, found, s.held, loose, len(s.waiting))
	}
	if filed == 0 && table.nameBytes.Load() != 0 {
		t.Errorf("%d bytes of names without a series", table.nameBytes.Load())
	}
}

// readEverything evaluates all stats of all series, so damaged state has a chance to do harm.
func (s *Shadow) readEverything() {
	t := s.Table()
	for i := range t.index.Shards {
		for _, found := range t.index.Shards[i].All() {
			key := found.Entry.Family.Key
			for _, stat := range found.Entry.Kind.Stats() {
				q := metric.Query{Resource: key.Resource, Namespace: key.Namespace, Object: "*", Expression: metric.Expression{Name: key.Name, Stat: stat}}
				if key.Resource == "" {
					_, _ = t.External(q)
				} else {
					_, _ = t.Objects(q)
				}
			}
		}
	}
}

// hostile is a shadow with a block 1 that nothing may harm, and the blobs of a block 0.
type hostile struct {
	clock, names, state, first, second []byte
}

func newHostile(t testing.TB, seed uint64) (h hostile) {
	f, r := newFixture(t), rand.New(rand.NewPCG(seed, 5))
	if seed%2 == 1 {
		f = newReplica(t)
		f.push("before:0|s|#pod:p1,ns:ns")
		f.AdoptSetSeed(f.SetSeed.Load() - 1)
	}
	p := pushesOf(r)
	h.clock = f.AppendClock(nil)
	for range 3 {
		f.churn(r, p)
	}
	h.first = f.AppendDelta(nil, 0)
	f.churn(r, p)
	f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "p1", Expression: metric.ParseExpression("c")})
	f.sweep()
	f.churn(r, p)
	h.second = f.AppendDelta(nil, 0)
	h.names, h.state = f.AppendBlockNames(nil, 0), f.AppendBlockState(nil, 0)
	return h
}

func (h *hostile) shadow(t testing.TB) *Shadow {
	c := DefaultConfig()
	c.MaxSeries, c.MaxBytes, c.Replicated = 5000, 4<<20, true
	s := NewShadow(c, quiet())
	own := newReplica(t)
	own.churn(rand.New(rand.NewPCG(1, 5)), newPushes(1))
	s.SetOwn(own.Table)
	must(t, s.Begin(h.clock))
	return s
}

// A blob that no table wrote is an error or replays somehow; it never panics, harms no other block,
// and the block can be replaced afterwards.
func FuzzShadow(f *testing.F) {
	var good [4]hostile
	for seed := range good {
		good[seed] = newHostile(f, uint64(seed))
		h := &good[seed]
		f.Add(uint8(seed), h.names, h.state, h.second)
		f.Add(uint8(seed), h.names, []byte(nil), h.first)
		f.Add(uint8(seed), []byte(nil), h.state, h.second)
		f.Add(uint8(seed), h.names, h.state[:len(h.state)/2], h.second[:len(h.second)/2])
		f.Add(uint8(seed), bytes.Repeat(h.names[:10], 3), h.state, []byte{recordDeath, 3})
	}
	f.Fuzz(func(t *testing.T, seed uint8, names, state, delta []byte) {
		good[seed%4].withstand(t, &good[(seed+1)%4], names, state, delta)
	})
}

// Damage is never a panic, wherever it is.
func TestShadowOfDamagedBlobs(t *testing.T) {
	h, other, r := newHostile(t, 1), newHostile(t, 2), rand.New(rand.NewPCG(6, 7))
	for range size(400, 100, 30) {
		h.withstand(t, &other, damaged(r, h.names), damaged(r, h.state), damaged(r, h.second))
	}
}

// withstand applies blobs to block 0, beside a block 1 of another origin.
func (h *hostile) withstand(t *testing.T, other *hostile, names, state, delta []byte) {
	s := h.shadow(t)
	must(t, s.ReplaceBlock(0, h.names, h.state))
	must(t, s.ReplaceBlock(1, other.names, other.state))
	for i, err := range []error{s.ApplyDelta(0, delta), s.ReplaceBlock(0, names, state), s.ApplyDelta(0, delta)} {
		if err != nil && i == 2 {
			for place := range uint32(kind.BlockSeries) {
				if s.Table().blocks.at[0].Load().series[place].entry != nil {
					t.Fatalf("place %d is in use after %v", place, err)
				}
			}
		}
	}
	s.sound(t)
	s.readEverything()
	s.shrinkSome()
	must(t, s.ReplaceBlock(0, nil, nil))
	if err := s.ReplaceBlock(1, nil, nil); err != nil || s.Series() != 0 || s.held != 0 || len(s.waiting) != 0 {
		t.Fatalf("%v; %d series, %d held, %d waiting", err, s.Series(), s.held, len(s.waiting))
	}
	s.sound(t)
	if n := s.Table().BodyBytes.Load(); n != 0 {
		t.Errorf("%d bytes of bodies without a series", n)
	}
	if err := s.ReplaceBlock(0, h.names, h.state); err != nil || s.Series() == 0 {
		t.Fatal(err, s.Series())
	}
}

func FuzzShadowClock(f *testing.F) {
	h := newHostile(f, 0)
	f.Add(h.clock)
	f.Fuzz(func(t *testing.T, clock []byte) {
		s := h.shadow(t)
		_ = s.Advance(clock, 0)
		if s.Begin(clock) == nil {
			if err := s.ReplaceBlock(0, h.names, h.state); err == nil {
				s.readEverything()
			}
			s.sound(t)
		}
	})
}
