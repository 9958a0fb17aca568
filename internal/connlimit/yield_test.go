package connlimit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// fill has addresses open so many connections each, all of which have a request in flight for as long as they are open.
func fill(t *testing.T, l *Limiter, addresses, each int) (open map[*Member]bool) {
	open = map[*Member]bool{}
	for i := range addresses * each {
		m, yielded := enter(t, l, fmt.Sprintf("10.1.0.%d", i%addresses))
		if yielded != nil {
			t.Fatalf("connection %d takes a slot", i)
		}
		m.Busy()
		open[m] = true
	}
	return open
}

// Four addresses whose connections always have a request in flight, and that dial again whenever they lose one, keep no client
// out, and take none of the slots of those that wait between two requests.
func TestBusyAddressesLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addresses, each, clients = 4, 64, 40
		l := limiter(Limits{Max: addresses * each, MaxEach: each, Keep: 30 * time.Second})
		flood := fill(t, l, addresses, each)
		var idle []*Member
		for i := range clients {
			m, _ := enter(t, l, fmt.Sprintf("10.2.0.%d", i))
			for busy := range flood {
				if busy.of != nil {
					busy.Busy() // its next request
				}
			}
			for from := range addresses {
				again, lost, err := l.enter(peer{ip: fmt.Sprintf("10.1.0.%d", from)})
				if err == nil {
					again.Busy()
					flood[again] = true
				}
				if lost != nil && !flood[lost] {
					t.Fatalf("with %d clients, a busy address takes the slot of %s", i+1, lost.From)
				}
			}
			m.Busy()
			m.Idle()
			idle = append(idle, m)
		}
		kept := 0
		for _, m := range idle {
			if m.of != nil {
				kept++
			}
		}
		if leaves := l.limits.Max / (3*addresses + 1); kept < leaves {
			t.Errorf("%d clients keep their connections, want %d", kept, leaves)
		}
	})
}

// Gateways that need all slots end with as many each, and take none of each other's back and forth: each time, a request would
// be lost.
func TestBusyAddressesComeToRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gateways, each, rounds = 5, 64, 100
		l := limiter(Limits{Max: 4 * each, MaxEach: each, Keep: time.Hour})
		fill(t, l, gateways-1, each)
		lost, at := 0, 0
		for round := range rounds {
			for from := range gateways {
				m, yielded, err := l.enter(peer{ip: fmt.Sprintf("10.1.0.%d", from)})
				time.Sleep(time.Millisecond)
				if err == nil {
					m.Busy()
				}
				if yielded != nil {
					lost, at = lost+1, round
				}
			}
		}
		if fair := l.limits.Max / gateways; lost != fair || at > fair {
			t.Errorf("%d requests were lost, the last in round %d; want %d, one in each of the first rounds", lost, at, fair)
		}
	})
}

// A gateway whose connections are all busy loses none to strangers, however many there are.
func TestAGatewayKeepsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(Limits{Max: 64, MaxEach: 48, Keep: time.Hour})
		gateway := fill(t, l, 1, 48)
		for i := range 200 {
			m, yielded := enter(t, l, fmt.Sprintf("10.2.0.%d", i%20))
			if gateway[yielded] {
				t.Fatalf("stranger %d takes a slot of the gateway", i)
			}
			if i%2 == 0 {
				m.Busy()
				m.Idle()
			}
		}
	})
}

// A silent address takes one slot of those that have too many in use, and then its own.
func TestASilentAddressTakesOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(Limits{Max: 256, MaxEach: 64, Keep: time.Hour})
		gateways := fill(t, l, 4, 64)
		taken := 0
		for range 100 {
			if _, yielded := enter(t, l, "10.2.0.1"); gateways[yielded] {
				taken++
			}
		}
		if taken != 1 {
			t.Errorf("%d slots of connections in use were taken", taken)
		}
	})
}

// BenchmarkEnter dials at a limit, so that each connection takes the slot of another one.
func BenchmarkEnter(b *testing.B) {
	for _, bench := range []struct {
		addresses, each int
		keep            time.Duration
		full            bool // the address that dials has all that it may
	}{{4, 1024, 30 * time.Second, true}, {16, 256, 30 * time.Second, false}, {320, 64, 0, true}, {320, 64, 0, false}, {20_000, 1, 0, false}} {
		b.Run(fmt.Sprintf("%dx%d/full=%t", bench.addresses, bench.each, bench.full), func(b *testing.B) {
			limits := Limits{Max: bench.addresses * bench.each, MaxEach: bench.each, Keep: bench.keep}
			if bench.full {
				limits.Max++
			}
			l := limiter(limits)
			for i := range bench.addresses * bench.each {
				if _, _, err := l.enter(peer{ip: fmt.Sprintf("10.1.%d.%d", i%bench.addresses/256, i%bench.addresses%256)}); err != nil {
					b.Fatal(err)
				}
			}
			from := peer{ip: "10.2.0.1"}
			if bench.full {
				from = peer{ip: "10.1.0.0"}
			}
			for b.Loop() {
				if _, yielded, err := l.enter(from); err != nil || yielded == nil {
					b.Fatal(yielded, err)
				}
			}
		})
	}
}
