package httpserver

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
)

// No more requests that take much memory are at work than processors can use, half of them of one address, and small ones
// wait for none.
func TestHeavyRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{heavy: newHeavy()}
		from := func(n byte) *Request {
			member := &connlimit.Member{From: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 32)}
			return &Request{server: s, call: &Call{Context: t.Context(), Peer: &listener.Peer{Member: member}}}
		}
		began := make(chan func(), 2*heavyAtWork()) // the ends of those that are at work
		for n := range byte(2) {
			for range heavyAtWork() {
				go func() {
					end, f := from(n).BeginHeavy(lightBytes + 1)
					if f != nil {
						t.Error(f)
					}
					began <- end
				}()
			}
			synctest.Wait()
			if want := heavyAtWork() / 2 * int(n+1); len(began) != want {
				t.Errorf("%d of %d addresses are at work, want %d", len(began), n+1, want)
			}
		}
		if end, f := from(0).BeginHeavy(lightBytes); f == nil {
			end()
		} else {
			t.Error(f)
		}
		for range heavyAtWork() {
			end := <-began
			end()
			end() // again changes nothing
			synctest.Wait()
		}
		if len(began) != heavyAtWork() || s.heavy.places.Free() != 0 {
			t.Errorf("%d have begun, and %d places are free", len(began), s.heavy.places.Free())
		}
		for range heavyAtWork() {
			(<-began)()
		}
		if s.heavy.places.Free() != heavyAtWork() {
			t.Errorf("%d places are free at the end", s.heavy.places.Free())
		}
	})
}

// A request that asks the API server leaves its place to others, for a part of what those may take that ask; and who waits
// in vain is told to come again.
func TestHeavyRequestsThatAskLeaveTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{heavy: newHeavy(), life: t.Context()}
		heavy := func(address byte, namespace string, bytes int) *Request {
			member := &connlimit.Member{From: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, address}), 32)}
			x := &Request{server: s, call: &Call{Context: t.Context(), Peer: &listener.Peer{Member: member}}}
			x.caller.account, x.caller.renewed = new(credential.Principal), true
			x.caller.sender = metric.Sender{Key: 1, Pod: &metric.Pod{Namespace: namespace}}
			if _, f := x.BeginHeavy(bytes); f != nil {
				t.Fatal(f)
			}
			return x
		}
		asks := []*Request{heavy(1, "flood", askingBytes/2), heavy(2, "flood", askingBytes/4)}
		for _, x := range asks {
			if err := x.leavePlace(); err != nil || x.leavePlace() != nil {
				t.Error(err)
			}
		}
		if s.heavy.places.Free() != heavyAtWork() {
			t.Errorf("%d places are free while all requests ask", s.heavy.places.Free())
		}
		more, other := heavy(1, "flood", askingBytes/4), heavy(2, "shop", 1<<20)
		if more.leavePlace() == nil || other.leavePlace() != nil {
			t.Error("one namespace has all that requests which ask may take")
		}
		waits := []*Request{}
		for n := range heavyAtWork() - 1 {
			waits = append(waits, heavy(byte(3+n%200), "shop", lightBytes+1))
		}
		late := &Request{server: s, call: waits[0].call}
		if _, f := late.BeginHeavy(lightBytes + 1); f == nil || !f.Busy() || !f.Retry() {
			t.Errorf("a request without a place is told %v", f)
		}
		for _, x := range append(append(asks, waits...), more, other, late) {
			x.endHeavy()
			x.endHeavy() // again changes nothing
		}
		if s.heavy.places.Free() != heavyAtWork() || s.heavy.asking.Held() != 0 {
			t.Errorf("%d places are free at the end, and %d bytes taken", s.heavy.places.Free(), s.heavy.asking.Held())
		}
	})
}
