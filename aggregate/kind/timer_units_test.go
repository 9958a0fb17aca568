package kind

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// observed is what a timer was noted, tick by tick: what its past is held against.
type observed struct {
	ticks []uint32
	parts []*distribution
}

func (o *observed) note(tick uint32, d *distribution) {
	o.ticks = append(o.ticks, tick)
	one := distributions.New().(*distribution)
	d.addTo(one)
	o.parts = append(o.parts, one)
}

func (d *distribution) addTo(to *distribution) {
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			to.add(bin, w)
		}
	}
	to.extend(d.Sum, d.min, d.max)
}

// since is all that came in units of a span from first on.
func (o *observed) since(sp *window.Span, first uint32) *distribution {
	all := distributions.New().(*distribution)
	for i, tick := range o.ticks {
		if sp.Unit(tick) >= first {
			o.parts[i].addTo(all)
		}
	}
	return all
}

// holds compares all that a timer can be asked for.
func (o *observed) holds(t *testing.T, what string, timer *timer, spans []window.Span, now uint32) {
	t.Helper()
	for i := range spans {
		sp := &spans[i]
		for first := sp.Unit(now) - min(window.TicksPerWindow, sp.Unit(now)-1); first <= sp.Unit(now); first++ {
			got, want := distributions.New().(*distribution), o.since(sp, first)
			timer.readLocked(got, spans, window.View{Span: sp, Index: i, FirstUnit: first})
			if !slices.Equal(got.weights, want.weights) || got.Sum != want.Sum || got.min != want.min || got.max != want.max {
				t.Fatalf("%s, tick %d, window %s from unit %d on: %d weigh %d, want %d weighing %d", what, now, sp.Window, first,
					got.top-got.low, got.Total, want.top-want.low, want.Total)
			}
		}
	}
}

// appendFirst appends what came from a tick on as the first format had it, its slots in no order.
func (o *observed) appendFirst(dst []byte, spans []window.Span, since uint32, r *rand.Rand) []byte {
	for i := range spans {
		sp := &spans[i]
		var units []uint32
		for _, tick := range o.ticks {
			if u := sp.Unit(tick); u >= sp.Unit(since) && u+uint32(sp.Kept()) > sp.Unit(o.ticks[len(o.ticks)-1]) && !slices.Contains(units, u) {
				units = append(units, u)
			}
		}
		r.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
		dst = binary.AppendUvarint(dst, uint64(len(units)))
		for _, u := range units {
			d := distributions.New().(*distribution)
			for n, tick := range o.ticks {
				if sp.Unit(tick) == u {
					o.parts[n].addTo(d)
				}
			}
			dst = binary.AppendUvarint(dst, uint64(u))
			dst = blob.AppendFloat(blob.AppendFloat(blob.AppendFloat(dst, d.Sum), d.min), d.max)
			dst = blob.AppendString(dst, string(firstBins(d)))
		}
	}
	return dst
}

func firstBins(d *distribution) (dst []byte) {
	before := 0
	for bin := d.low; bin < d.top; bin++ {
		if w := d.weights[bin]; w != 0 {
			head := w / WeightUnits << 2
			if w%WeightUnits != 0 {
				head = w<<2 | 2
			}
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, head|1), uint64(bin-before))
			before = bin
		}
	}
	return dst
}

// D5: a timer reads back all that it recorded, whenever units were folded. The same holds after a
// restart at any moment, from a state and the deltas since, even where the state is newer than some
// of them, and from the first format.
func TestTimerPast(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		windows := []time.Duration{10 * time.Second, time.Minute}
		if seed%3 == 0 {
			windows = []time.Duration{time.Minute, 10 * time.Second, time.Hour}
		}
		spans := window.NewSpans(windows, slices.Min(windows)/window.TicksPerWindow)
		restorer := &Restorer{Env: &Env{Spans: spans}, SameWindows: true}
		restorer.Today, restorer.Strides = math.MaxUint32/2, make([]uint32, len(spans))
		var model observed
		one, copied := new(timer), new(timer)
		tick, saved, stamp := uint32(1+r.IntN(200)), uint32(0), uint32(0)
		replay := func(to *timer, data []byte) {
			d := &blob.Decoder{Rest: data}
			if to.restore(d, restorer); d.Err != nil || len(d.Rest) > 0 {
				t.Fatalf("seed %d: %v, %d bytes are left", seed, d.Err, len(d.Rest))
			}
		}
		var deltas [][]byte // since the copy's state was made
		jump := 1 + r.IntN(12)
		for step := range 100 {
			tick += uint32(r.IntN(jump))
			if r.IntN(40) == 0 {
				tick += uint32(r.IntN(5000))
			}
			tick = max(tick, stamp)
			stamp = tick
			fresh := distributions.New().(*distribution)
			for range 1 + r.IntN(20) {
				v := float64(r.IntN(1000) - 3)
				fresh.add(BinOf(v), uint64(1+r.IntN(40))*WeightUnits+uint64(max(0, r.IntN(100)-90)))
				fresh.extend(v, v, v)
			}
			model.note(tick, fresh)
			one.recordTickLocked(spans, tick, fresh)
			model.holds(t, "live", one, spans, tick)
			switch r.IntN(4) {
			case 0:
				deltas = append(deltas, one.AppendLocked(nil, spans, saved))
				saved = tick - 1
				replay(copied, deltas[len(deltas)-1])
				model.holds(t, "deltas", copied, spans, tick)
			case 1:
				if r.IntN(5) == 0 { // a state, with the deltas before it again
					deltas = append(deltas, one.AppendLocked(nil, spans, saved))
					saved = tick - 1
					state := one.AppendLocked(nil, spans, 0)
					copied = new(timer)
					for _, blob := range append([][]byte{state}, deltas...) {
						replay(copied, blob)
					}
					model.holds(t, "state and older deltas", copied, spans, tick)
					deltas = nil
				}
			case 2:
				if step > 20 && r.IntN(20) == 0 { // a restart of what the first format has
					one, copied, deltas = new(timer), new(timer), nil
					state := model.appendFirst(nil, spans, 0, r)
					delta := model.appendFirst(nil, spans, tick-1, r)
					for _, to := range []*timer{one, copied} {
						replay(to, state)
						replay(to, delta)
					}
					stamp = max(stamp, one.folded)
					saved = stamp - 1
					model.holds(t, "first format", one, spans, tick)
				}
			}
		}
	}
}
