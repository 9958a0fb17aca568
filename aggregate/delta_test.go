package aggregate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Most bytes written to disk are deltas of changed counters. A delta takes few bytes a counter, and
// the parts that it leaves out are restored.
func TestADeltaOfCountersIsSmall(t *testing.T) {
	const counters, most = 500, 7
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t).running(), newSaved()
		push := func() {
			for i := range counters {
				f.push(fmt.Sprintf("c:%d|c|#pod:p,ns:ns,k:%d", i, i))
			}
			time.Sleep(400 * time.Millisecond)
		}
		for range 40 { // the logs are full of what comes again and again
			push()
			disk.flush(f.Table, each)
		}
		push()
		disk.flush(f.Table, never)
		if bytes := len(disk.deltas[0][0]); bytes > most*counters {
			t.Errorf("a delta of %d counters has %d bytes", counters, bytes)
		}
		before := f.all()
		if after := disk.restore(t).all(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
}
