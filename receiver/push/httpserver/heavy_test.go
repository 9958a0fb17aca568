package httpserver

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
)

// No more requests that take much memory are at work than processors can use, half of them of one address, and small ones
// wait for none.
func TestHeavyRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{heavy: newHeavy()}
		from := func(n byte) *Request {
			member := &connlimit.Member{From: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 32)}
			return &Request{server: s, call: &Call{Peer: &listener.Peer{Member: member}}}
		}
		began := make(chan func(), 2*heavyAtWork()) // the ends of those that are at work
		for n := range byte(2) {
			for range heavyAtWork() {
				go func() { began <- from(n).BeginHeavy(lightBytes + 1) }()
			}
			synctest.Wait()
			if want := heavyAtWork() / 2 * int(n+1); len(began) != want {
				t.Errorf("%d of %d addresses are at work, want %d", len(began), n+1, want)
			}
		}
		from(0).BeginHeavy(lightBytes)()
		for range heavyAtWork() {
			end := <-began
			end()
			end() // again changes nothing
			synctest.Wait()
		}
		if len(began) != heavyAtWork() || s.heavy.Free() != 0 {
			t.Errorf("%d have begun, and %d places are free", len(began), s.heavy.Free())
		}
		for range heavyAtWork() {
			(<-began)()
		}
		if s.heavy.Free() != heavyAtWork() {
			t.Errorf("%d places are free at the end", s.heavy.Free())
		}
	})
}
