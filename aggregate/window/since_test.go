package window

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Since is Read without the entries before a tick, whatever it need not decode.
func TestSince(t *testing.T) {
	n := NewLogs(NewSpans([]time.Duration{10 * time.Second, time.Minute}, time.Second), func(int64) bool { return true })
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []Coding{WholeCoding, FloatCoding, WeightCoding} {
		for range 200 {
			var p History
			tick, value, pauses := uint32(1), uint64(0), 1+r.Uint32N(4)
			for range 1 + r.IntN(150) {
				tick += r.Uint32N(1 + pauses)
				value += r.Uint64N(1 << r.UintN(40))
				p.Record(n, c, tick, value)
				checkSince(t, n, c, &p, tick)
				if r.IntN(20) == 0 {
					p.Shrink(n, c, tick)
				}
			}
			p.FreeLog(n)
		}
	}
}

func checkSince(t *testing.T, n *Logs, c Coding, p *History, now uint32) {
	t.Helper()
	for tick := now - min(now, 5); tick <= now+1; tick++ {
		want := p.Read(n, c, nil)
		for len(want) > 1 && want[0].Tick < tick {
			want = want[1:]
		}
		if got := p.Since(n, c, tick, 0, nil); !slices.Equal(got, want) {
			t.Fatalf("entries since tick %d: %v, want %v", tick, got, want)
		}
	}
}
