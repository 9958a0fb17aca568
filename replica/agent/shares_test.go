package agent

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A sender that floods an agent, or several that do, keep no other one of the node out.
func TestFloodsKeepNoSenderOut(t *testing.T) {
	for name, limits := range map[string]Config{
		"of series": {MaxBytes: 64 << 20, MaxSeries: 10_000},
		"of bytes":  {MaxBytes: 4 << 20, MaxSeries: 100_000},
	} {
		for _, flooding := range []int{1, 4} {
			t.Run(fmt.Sprint(name, " by ", flooding), func(t *testing.T) {
				c := NewCollector(limits)
				small := sender(200)
				push := func(from *metric.Sender, i int) metric.Reason {
					s := named(fmt.Sprint("c", i), metric.Counter, metric.Add, 1)
					s.Sender = from
					return c.apply(s)
				}
				for i := range 50 {
					push(small, i)
				}
				flood := func() {
					for i := range 30_000 {
						for from := range flooding {
							push(sender(byte(from)), i)
						}
					}
				}
				flood()
				c.cut(time.Now()) // the changes of frames wait for a server
				flood()
				for i := range 100 {
					if reason := push(small, i); reason != metric.Applied {
						t.Fatalf("series %d of the other sender: %v", i, reason)
					}
				}
				c.cut(time.Now())
				run := c.enter("a", 1, true)
				c.next(run, 0, true)
				c.forget(run, run.last, 0, false)
				if c.sweep(time.Now().Add(2 * forgetAfter)); len(c.shares) > 0 || c.bytes != 0 {
					t.Errorf("%d shares and %d bytes are left of no series", len(c.shares), c.bytes)
				}
			})
		}
	}
}

func sender(n byte) *metric.Sender {
	return &metric.Sender{Address: netip.AddrFrom4([4]byte{10, 0, 0, n})}
}

// A sender that floods has its own samples given up that wait for a server which is away, and those of no other one.
func TestFloodsLoseNoSamplesOfOthers(t *testing.T) {
	c := collector(1 << 20)
	push := func(name string, from byte, n int) (applied int) {
		for i := range n {
			s := named(name, metric.Timer, metric.Observe, float64(i))
			if s.Sender = sender(from); c.apply(s) == metric.Applied {
				applied++
			}
		}
		return applied
	}
	good, own := push("good", 1, 100), push("flood", 2, 200)
	c.cut(time.Now())
	run := c.enter("a", 1, true)
	c.next(run, 0, true)
	c.leave(run, true)
	c.enter("b", 2, true)
	more := 0
	for i := range 50 {
		more += push(fmt.Sprint("flood", i), 2, 4000)
	}
	if n := c.lost.Load(); n != uint64(own) || more == 50*4000 {
		t.Errorf("%d samples are lost, and %d of the flood applied; want those %d of the sender that floods", n, more, own)
	}
	if n := run.samplesLocked(); n != uint64(good) || c.Held() != uint64(good+more) || len(run.frames) != 1 {
		t.Errorf("%d samples wait for the server in %d frames, and %d in all; want %d of the other sender, and %d", n, len(run.frames), c.Held(), good, good+more)
	}
	if more := push("good", 1, 100); more != 100 {
		t.Errorf("%d samples of the other sender are applied", more)
	}
}
