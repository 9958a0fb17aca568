package aggregate

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
