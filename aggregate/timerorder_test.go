package aggregate

import (
	"testing"
	"testing/synctest"
	"time"
)

// A reader may have noted under a tick that is later than that of what was held and is applied now.
// The records stay in order, or the block could not be restored.
func TestTimerNotedByAReaderFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t), newSaved()
		f.push("t:1|ms|#pod:a,ns:ns")
		f.Roll()
		time.Sleep(10 * time.Second)
		f.push("t:2|ms|#pod:a,ns:ns")
		f.want("t:count", "a=2")
		late := sample("t:3|ms|#pod:a,ns:ns")
		late.Arrived = time.Now().Add(-5 * time.Second).UnixNano()
		f.apply(late)
		f.want("t:count", "a=3")
		disk.flush(f.Table, each)
		disk.restore(t).want("t:count", "a=3")
	})
}
