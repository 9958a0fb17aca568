package cluster

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func nthAddress(n int) netip.Addr {
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], 0x0a000000+uint32(n))
	return netip.AddrFrom4(raw)
}

// After any puts and drops the table answers as a plain map does, and stays small.
func TestAddressesAgainstAMap(t *testing.T) {
	a, want := newAddresses(), map[netip.Addr]*metric.Sender{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 200_000 {
		addr := nthAddress(random.IntN(3000) + i/100) // most appear once
		if random.IntN(2) == 0 {
			delete(want, addr)
			a.drop(addr)
			continue
		}
		want[addr] = &metric.Sender{Key: uint64(i + 1), Address: addr}
		a.put(want[addr])
	}
	for i := range 6000 {
		if got := a.load(nthAddress(i)); got != want[nthAddress(i)] {
			t.Fatalf("%s: %+v, want %+v", nthAddress(i), got, want[nthAddress(i)])
		}
	}
	if a.live != len(want) {
		t.Errorf("%d live, want %d", a.live, len(want))
	}
	if slots := len(a.table.Load().slots); slots > 8*len(want) {
		t.Errorf("%d slots for %d addresses", slots, len(want))
	}
}

func TestAddressesDoNotAllocate(t *testing.T) {
	a := newAddresses()
	for i := range 1000 {
		a.put(&metric.Sender{Key: 1, Address: nthAddress(i)})
	}
	if n := testing.AllocsPerRun(100, func() { a.load(nthAddress(5)); a.load(nthAddress(5000)) }); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

func BenchmarkSender(b *testing.B) {
	a := newAddresses()
	const pods = 150_000
	for i := range pods {
		a.put(&metric.Sender{Key: 1, Address: nthAddress(i)})
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(pods); pb.Next(); i += 7919 {
			if a.load(nthAddress(i%pods)) == nil {
				b.Error("an address is not known")
				return
			}
		}
	})
}

// Prefetched addresses have the same answers, whatever the size of the batch.
func TestPrefetchChangesNoAnswer(t *testing.T) {
	a := newAddresses()
	const pods = 1_000
	var all []netip.Addr
	for i := range pods {
		all = append(all, nthAddress(i))
		if i%2 == 0 {
			a.put(&metric.Sender{Key: uint64(i + 1), Address: all[i]})
		}
	}
	a.drop(all[4])
	for _, n := range []int{0, 1, prefetchBatch - 1, prefetchBatch, prefetchBatch + 1, pods} {
		a.prefetch(all[:n])
	}
	for i, address := range all {
		if found := a.load(address); (found != nil) != (i%2 == 0 && i != 4) {
			t.Fatalf("%v: %v", address, found)
		}
	}
	if n := testing.AllocsPerRun(10, func() { a.prefetch(all) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The cost of senders that are looked up in batches, as a receiver does, in random order.
func BenchmarkSendersOfABatch(b *testing.B) {
	a := newAddresses()
	const pods, batch = 150_000, 32
	for i := range pods {
		a.put(&metric.Sender{Key: 1, Address: nthAddress(i)})
	}
	order := rand.Perm(pods)
	for name, ahead := range map[string]func([]netip.Addr){"foreseen": a.prefetch, "one by one": func([]netip.Addr) {}} {
		b.Run(name, func(b *testing.B) {
			var some [batch]netip.Addr
			for at := 0; b.Loop(); {
				for i := range some {
					some[i] = nthAddress(order[at%pods])
					at++
				}
				ahead(some[:])
				for _, addr := range some {
					if a.load(addr) == nil {
						b.Fatal("an address is not known")
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/sender")
		})
	}
}
