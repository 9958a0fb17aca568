package aggregate

import (
	"testing"
	"testing/synctest"
	"time"
)

// Half a tick after the one that closes it, a block is rolled by whoever comes first: not by the
// roller where the store has just done so.
func TestTheStoreSparesTheRoller(t *testing.T) {
	for _, c := range []struct {
		name   string
		stored bool
	}{{"with a store", true}, {"without", false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t).running()
				time.Sleep(10*time.Second + 400*time.Millisecond)
				f.push("c:1|c|#pod:a,ns:ns")
				if c.stored {
					f.AppendDelta(nil, 0)
				}
				f.push("c:1|c|#pod:a,ns:ns")
				b := f.blocks.at[0].Load()
				time.Sleep(200 * time.Millisecond)
				if b.page.dirty.Has(0) != c.stored {
					t.Errorf("half a tick on, marked: %t", !c.stored)
				}
				time.Sleep(500 * time.Millisecond)
				if b.page.dirty.Has(0) {
					t.Error("the tick's end left it marked")
				}
				f.want("c:count", "a=2")
			})
		})
	}
}
