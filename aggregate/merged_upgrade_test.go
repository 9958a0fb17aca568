package aggregate

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// upgrade are two replicas of which each follows the other, and restarts once.
type upgrade struct {
	t       *testing.T
	tables  [2]*fixture
	shadows [2]*Shadow // of the table, at the other replica; nil while that is down
	merged  [2]*Merged
	disks   [2]*saved
	down    [2]bool
}

func newUpgrade(t *testing.T) *upgrade {
	u := &upgrade{t: t}
	for i := range u.tables {
		u.tables[i], u.disks[i] = newReplica(t).running(), newSaved()
		u.tables[i].SetSeed.Store(1)
		time.Sleep(377 * time.Millisecond)
	}
	for i := range u.tables {
		u.follow(i)
	}
	return u
}

// follow makes a replica follow the other one anew, whether that is up or not.
func (u *upgrade) follow(i int) {
	other := 1 - i
	u.merged[i] = NewMerged(u.tables[i].Table)
	u.merged[i].SetRank(i)
	s := NewShadow(DefaultConfig(), quiet())
	u.must(s.Begin(u.tables[other].AppendClock(nil)))
	for block := range u.tables[other].Blocks() {
		u.must(s.ReplaceBlock(block, u.tables[other].AppendBlockNames(nil, block), u.tables[other].AppendBlockState(nil, block)))
	}
	u.shadows[other] = s
	u.merged[i].SetShadows([]*Shadow{s})
}

func (u *upgrade) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Error(err)
	}
}

// flush takes a replica's delta, for its disk and the other replica.
func (u *upgrade) flush(i int) {
	if u.down[i] {
		return
	}
	f := u.tables[i]
	clock := f.AppendClock(nil)
	deltas := make([][]byte, f.Blocks())
	for block := range deltas {
		deltas[block] = f.AppendDelta(nil, block)
	}
	u.disks[i] = newSaved()
	u.disks[i].clock = clock
	for block := range deltas {
		u.disks[i].names[block], u.disks[i].state[block] = f.AppendBlockNames(nil, block), f.AppendState(nil, block)
	}
	if u.down[1-i] {
		return
	}
	u.must(u.shadows[i].Advance(clock, 0))
	for block, delta := range deltas {
		u.must(u.shadows[i].ApplyDelta(block, delta))
	}
}

// stop ends a replica in order: its last flush arrives.
func (u *upgrade) stop(i int) {
	u.flush(i)
	u.down[i] = true
}

// start restarts a replica, which knows nothing of the other one but its state.
func (u *upgrade) start(i int) {
	f := newReplica(u.t)
	u.must(u.disks[i].into(f.Table))
	u.tables[i], u.down[i] = f.running(), false
	u.follow(i)
	for block := range f.Blocks() {
		u.must(u.shadows[i].ReplaceBlock(block, f.AppendBlockNames(nil, block), f.AppendBlockState(nil, block)))
	}
	u.flush(i)
}

// A rolling upgrade is not seen in the rate of a constant stream, at neither replica.
func TestMergedRollingUpgrade(t *testing.T) {
	for _, interval := range []time.Duration{2500 * time.Millisecond, time.Second, 40 * time.Millisecond}[:size(3, 3, 1)] {
		for _, phase := range []time.Duration{0, 370, 130, 610, 860}[:size(5, 1, 1)] {
			t.Run(fmt.Sprintf("%s/%d", interval, phase), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u := newUpgrade(t)
					time.Sleep(2*time.Minute + phase*time.Millisecond)
					u.play(interval)
				})
			})
		}
	}
}

func (u *upgrade) play(interval time.Duration) {
	const step = 20 * time.Millisecond
	worst := map[string]float64{}
	line := fmt.Sprintf("x:%v|c|#pod:a,ns:ns", 100*interval.Seconds())
	for at := time.Duration(0); at < 6*time.Minute; at += step {
		switch at {
		case 3 * time.Minute:
			u.stop(0)
		case 3*time.Minute + 5*time.Second:
			u.start(0)
		case 3*time.Minute + 20*time.Second:
			u.stop(1)
		case 3*time.Minute + 25*time.Second:
			u.start(1)
		}
		if at%interval == 0 {
			to := int(at/interval) % 2
			if u.down[to] {
				to = 1 - to
			}
			u.tables[to].push(line)
		}
		if at%(500*time.Millisecond) == 0 {
			u.flush(0)
			u.flush(1)
		}
		if at > 2*time.Minute && at%(100*time.Millisecond) == 60*time.Millisecond {
			synctest.Wait()
			u.observe(worst, at, interval)
		}
		time.Sleep(step)
	}
	u.t.Log(worst)
}

// startedLately reports whether a replica has restarted.
func (u *upgrade) startedLately(at time.Duration) bool {
	for _, started := range []time.Duration{3*time.Minute + 5*time.Second, 3*time.Minute + 25*time.Second} {
		if at >= started && at < started+2500*time.Millisecond {
			return true
		}
	}
	return false
}

func (u *upgrade) observe(worst map[string]float64, at, interval time.Duration) {
	for i, m := range u.merged {
		if u.down[i] {
			continue
		}
		for _, asked := range []string{"x:rate:10s", "x:rate:1m"} {
			points, err := m.Objects(metric.Query{Resource: "pods", Namespace: "ns", Object: "a", Expression: metric.ParseExpression(asked)})
			if err != nil || len(points) != 1 {
				u.t.Fatalf("%s: %v, %v", asked, points, err)
			}
			off := points[0].Value.Float64() - 100
			name := fmt.Sprint(i, " ", asked)
			if math.Abs(off) > math.Abs(worst[name]) {
				worst[name] = off
			}
			tolerance := 2.5
			if interval == time.Second && u.startedLately(at) { // a push in the tick in which an origin resumed
				tolerance = 10.1
			}
			if math.Abs(off) > tolerance {
				u.t.Errorf("replica %d: %s is off by %.1f %% at %s", i, asked, off, at)
			}
		}
	}
}
