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
		began := make(chan func(), cap(h.heavy)+3) // the ends of those that are at work
		for range cap(h.heavy) + 3 {
			go func() {
				began <- h.beginHeavy(large, 60)
			}()
			synctest.Wait()
		}
		if len(began) != cap(h.heavy) {
			t.Errorf("%d are at work, want %d", len(began), cap(h.heavy))
		}
		h.beginHeavy(small, 2)()
		for range 3 {
			end := <-began
			end()
			end() // again changes nothing
			synctest.Wait()
		}
		if len(began) != cap(h.heavy) || len(h.heavy) != cap(h.heavy) {
			t.Errorf("%d have begun, and %d are at work, want %d", len(began), len(h.heavy), cap(h.heavy))
		}
		for range cap(h.heavy) {
			(<-began)()
		}
		if len(h.heavy) != 0 {
			t.Errorf("%d places are taken at the end", len(h.heavy))
		}
	})
}
