package pushgateway

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// No more pushes that take much memory are at work than processors can use, and small ones wait for none.
func TestHeavyPushesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(nil, Config{}, httpserver.DefaultConfig())
		large, small := bytes.Repeat([]byte("a 1\n"), 10_000), bytes.Repeat([]byte("a 1\n"), 50)
		var ends []func()
		working := 0
		for range cap(h.heavy) + 3 {
			go func() {
				end := h.beginHeavy(large, 60)
				working++
				ends = append(ends, end)
			}()
			synctest.Wait()
		}
		if working != cap(h.heavy) {
			t.Errorf("%d are at work, want %d", working, cap(h.heavy))
		}
		h.beginHeavy(small, 2)()
		for range 3 {
			ends[0]()
			ends[0]() // again changes nothing
			ends = ends[1:]
			synctest.Wait()
		}
		if working != cap(h.heavy)+3 || len(h.heavy) != cap(h.heavy) {
			t.Errorf("%d were at work, and %d are", working, len(h.heavy))
		}
		for _, end := range ends {
			end()
		}
		if len(h.heavy) != 0 {
			t.Errorf("%d places are taken at the end", len(h.heavy))
		}
	})
}
