package aggregate

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

// Timers and sets of one namespace, and of a second one, leave memory to others, and what they took returns with them.
func TestBodiesOfANamespaceLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes, c.NamespaceShares = 20<<20, true
		f := newFixtureOf(t, c).running()
		flood := func(namespace string) {
			f.w.Online()
			for n := range 120 {
				for i := range 1000 {
					f.w.Apply(sample(fmt.Sprintf("t%d:%v|ms|#pod:a,ns:%s", n, math.Pow(10, -15+30*float64(i)/1000), namespace)))
					f.w.Apply(sample(fmt.Sprintf("s%d:%d|s|#pod:a,ns:%s", n, i, namespace)))
				}
			}
			f.w.Quiesce()
			f.w.Offline()
		}
		for i, leaves := range []int64{c.MaxBytes / 5, c.MaxBytes / 25} {
			flood(fmt.Sprint("hostile-", i))
			if left := f.bytesLeft(); left < leaves {
				t.Errorf("%d namespaces leave %d of %d bytes", i+1, left, c.MaxBytes)
			}
		}
		f.w.Online()
		for _, line := range []string{"c:1|c", "t:1|ms", "t:1000000|ms", "s:1|s", "s:2|s"} {
			if reason := f.w.Apply(sample(line + "|#pod:a,ns:shop")); reason != metric.Applied {
				t.Errorf("%s of another namespace: %v", line, reason)
			}
		}
		f.w.Quiesce()
		f.w.Offline()
		time.Sleep(2 * c.ObjectTTL)
		checkNoShares(t, f)
	})
}

// So do histograms, however many lists of bounds they have: here, in the shadow of another replica, and after a restart.
func TestHistogramsOfANamespaceLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes, c.NamespaceShares, c.Replicated = 20<<20, true, true
		f, disk := newFixtureOf(t, c).running(), newSaved()
		time.Sleep(2 * time.Minute)
		shadow := newFollower(t, f)
		shadow.copyAll()
		bounds, counts := make([]float64, 1000), make([]float64, 1001)
		push := func(op metric.Op, namespace string, series int) metric.Reason {
			for i := range bounds {
				bounds[i]++
				counts[i]++
			}
			s := pushOf(op, histogram(bounds, counts, 1))
			s.Tags = fmt.Appendf(nil, "pod:a,ns:%s,n:%d", namespace, series)
			return f.w.Apply(s)
		}
		for i := range bounds {
			bounds[i] = float64(i)
		}
		ops, refused := []metric.Op{metric.Merge, metric.Accumulate}, 0
		for tick := range 65 {
			f.w.Online()
			for n := range 5 * 40 {
				if push(ops[n%40/20], "hostile", n%40) == metric.OverLimit {
					refused++
				}
			}
			if reason := push(metric.Merge, "shop", tick%2); reason != metric.Applied {
				t.Fatalf("tick %d: a histogram of another namespace: %v", tick, reason)
			}
			f.w.Quiesce()
			f.w.Offline()
			checkHeld(t, f.Table)
			if left := f.bytesLeft(); left < c.MaxBytes/6 {
				t.Fatalf("tick %d: %d of %d bytes are left", tick, left, c.MaxBytes)
			}
			time.Sleep(time.Second)
			if tick%10 == 0 {
				shadow.follow(false)
				checkHeld(t, shadow.Table())
				disk.flush(f.Table, never)
			}
		}
		if refused == 0 {
			t.Error("nothing was refused")
		}
		disk.flush(f.Table, never)
		restarted := disk.restore(t)
		checkHeld(t, restarted.Table)
		if before, after := f.UsedBytes(), restarted.UsedBytes(); after > before+c.MaxBytes/50 {
			t.Errorf("%d bytes after a restart, %d before", after, before)
		}
		time.Sleep(2 * c.ObjectTTL)
		checkNoShares(t, f)
	})
}

// So do estimated sets, which were counted for what they held, not for what they grow to when they are awake.
func TestEstimatedSetsOfANamespaceLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes, c.NamespaceShares = 5<<20, true
		f, disk := newFixtureOf(t, c).running(), newSaved()
		const sets = 100
		see := func(set, members, since int) {
			for i := range members {
				f.w.Apply(sample(fmt.Sprintf("s%d:%d|s|#pod:a,ns:hostile", set, since+i)))
			}
		}
		for i := range 100 {
			f.w.Online()
			for n := range sets {
				if n/5 == i {
					see(n, 2600, 0)
				} else if n/5 < i {
					see(n, 1, 2600+i)
				}
			}
			f.w.Offline()
			time.Sleep(time.Second)
			if left := f.bytesLeft(); left < c.MaxBytes/5 {
				t.Fatalf("second %d: %d of %d bytes are left", i, left, c.MaxBytes)
			}
			checkHeld(t, f.Table)
		}
		disk.flush(f.Table, each)
		restarted := disk.restore(t)
		checkHeld(t, restarted.Table)
		if before, after := f.UsedBytes(), restarted.UsedBytes(); after > before {
			t.Errorf("%d bytes after a restart, %d before", after, before)
		}
		f.want("s0:unique", restarted.ask("s0:unique"))
		time.Sleep(3 * time.Minute)
		if idle := f.BodyBytes.Load() / sets; idle > 1024 {
			t.Errorf("an idle set takes %d bytes", idle)
		}
		time.Sleep(2 * c.ObjectTTL)
		checkNoShares(t, f)
	})
}

// A shadow without memory keeps the counts and sums of histograms, and says that it has neither percentiles nor the
// members of estimated sets.
func TestAShadowWithoutMemoryKeepsNoBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newOrigin(t, true).running()
		time.Sleep(2 * time.Minute)
		shadow := newFollower(t, f)
		c := f.config
		c.MaxBytes = 1 << 20
		shadow.Shadow = NewShadow(c, quiet())
		must(t, shadow.Begin(f.AppendClock(nil)))
		bounds, counts := make([]float64, 1000), make([]float64, 1001)
		for i := range bounds {
			bounds[i], counts[i] = float64(i), 1
		}
		const series, one = 30, 3 << 17 // bytes of the one that is beyond, and of empty ones
		for range 3 {
			for n := range series {
				f.apply(pushOf(metric.Merge, histogram(bounds, counts, 1), fmt.Sprint("n:", n)))
				for i := range 2600 {
					f.push(fmt.Sprintf("s%d:%d|s|#pod:a,ns:ns", n, i))
				}
			}
			time.Sleep(time.Second)
			shadow.follow(false)
			checkHeld(t, shadow.Table())
			if bytes := shadow.Table().UsedBytes(); bytes > c.MaxBytes+one {
				t.Errorf("the shadow takes %d bytes of %d", bytes, c.MaxBytes)
			}
		}
		r := shadow.reader()
		r.want("t:count", f.ask("t:count"))
		r.want(fmt.Sprintf("s%d:unique", series-1), fmt.Sprintf(`"s%d" for pods in "ns" has no unique: its memory is used up`, series-1))
		r.want("t:p50", `"t" for pods in "ns" has no p50: the pushed data does not contain it`)
	})
}

// checkHeld checks that no timer or set holds more than is counted.
func checkHeld(t *testing.T, table *Table) {
	t.Helper()
	synctest.Wait() // what is rolled at this moment is counted at its end
	all := int64(0)
	for i := range uint32(table.Blocks()) {
		b := table.blocks.at[i].Load()
		b.history.Lock()
		for place := range uint32(kind.BlockSeries) {
			body := b.body(place)
			switch {
			case body == nil:
			case body.Set != nil:
				all += body.Set.BytesLocked()
			case body.Timer != nil:
				live := table.Timers.Of(&b.page.cells[place])
				held, counted := body.Timer.BytesLocked(live), body.Timer.Weight(live)
				if all += counted; held > counted {
					t.Errorf("a timer holds %d bytes, of which %d are counted", held, counted)
				}
			}
		}
		b.history.Unlock()
	}
	if counted := table.BodyBytes.Load(); all > counted {
		t.Fatalf("series hold %d bytes, of which %d are counted", all, counted)
	}
}

// So do series with long labels.
func TestLabelsOfANamespaceLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.MaxBytes, c.NamespaceShares = 20<<20, true
		f := newFixtureOf(t, c).running()
		long := strings.Repeat("x", 8000)
		for i, leaves := range []int64{c.MaxBytes / 5, c.MaxBytes / 25} {
			f.w.Online()
			for n := range 4000 {
				f.w.Apply(sample(fmt.Sprintf("g:1|g|#pod:a,ns:hostile-%d,n:%d,long:%s", i, n, long)))
			}
			f.w.Quiesce()
			f.w.Offline()
			if left := f.bytesLeft(); left < leaves {
				t.Errorf("%d namespaces leave %d of %d bytes", i+1, left, c.MaxBytes)
			}
		}
		f.w.Online()
		for _, line := range []string{"c:1|c", "t:1|ms", "g:1|g|#long:" + long} {
			line, tags, _ := strings.Cut(line, "|#")
			if reason := f.w.Apply(sample(line + "|#pod:a,ns:shop," + tags)); reason != metric.Applied {
				t.Errorf("%s of another namespace: %v", line, reason)
			}
		}
		f.w.Quiesce()
		f.w.Offline()
		time.Sleep(2 * c.ObjectTTL)
		checkNoShares(t, f)
	})
}

// checkNoShares checks that no namespace is counted for what has expired.
func checkNoShares(t *testing.T, f *fixture) {
	t.Helper()
	for namespace, share := range f.shares.Range {
		if bytes := share.(*atomic.Int64).Load(); bytes != 0 {
			t.Errorf("%s: %d bytes are counted once all has expired", namespace, bytes)
		}
	}
}
