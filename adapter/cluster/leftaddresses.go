package cluster

import (
	"net/netip"
	"time"
)

// leftAddresses is a ring of the addresses that pods left last. The lock of pods guards it.
type leftAddresses struct {
	count int
	last  [maxLeftAddresses]leftAddress
}

type leftAddress struct {
	netip.Addr
	at time.Time
}

const (
	// maxLeftAddresses is the length of the ring: 30 pods that go each second.
	maxLeftAddresses = 1024
	// reusedWithin is how long samples of an address without a pod are held.
	reusedWithin = 30 * time.Second
)

func (l *leftAddresses) add(address netip.Addr) {
	l.last[l.count%maxLeftAddresses] = leftAddress{address, time.Now()}
	l.count++
}

// lately reports whether a pod left the address so lately that samples of that pod may still be held.
func (l *leftAddresses) lately(address netip.Addr) bool {
	for _, left := range l.last[:min(l.count, maxLeftAddresses)] {
		if left.Addr == address && time.Since(left.at) < reusedWithin {
			return true
		}
	}
	return false
}
