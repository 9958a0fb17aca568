package pushgateway

import (
	"bytes"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// No more pushes that take much memory are at work than processors can use, and small ones wait for none.
func TestHeavyPushesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(nil, Config{}, httpserver.DefaultConfig())
		large, small := bytes.Repeat([]byte("a 1\n"), 10_000), bytes.Repeat([]byte("a 1\n"), 50)
		began := make(chan func(), heavyAtWork()+3) // the ends of those that are at work
		for range heavyAtWork() + 3 {
			go func() {
				began <- h.beginHeavy(netip.Prefix{}, large, 60)
			}()
			synctest.Wait()
		}
		if len(began) != heavyAtWork() {
			t.Errorf("%d are at work, want %d", len(began), heavyAtWork())
		}
		h.beginHeavy(netip.Prefix{}, small, 2)()
		for range 3 {
			end := <-began
			end()
			end() // again changes nothing
			synctest.Wait()
		}
		if len(began) != heavyAtWork() || h.heavy.Free() != 0 {
			t.Errorf("%d have begun, and %d are at work, want %d", len(began), heavyAtWork()-h.heavy.Free(), heavyAtWork())
		}
		for range heavyAtWork() {
			(<-began)()
		}
		if h.heavy.Free() != heavyAtWork() {
			t.Errorf("%d places are free at the end", h.heavy.Free())
		}
	})
}
