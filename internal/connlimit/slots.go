package connlimit

import (
	"fmt"
	"net/netip"
	"sync"
)

// Slots counts what peers hold, such as connections or requests in flight, and limits it in all and
// per address. Its methods may be called by several goroutines at once.
type Slots struct {
	max, maxEach int

	mu    sync.Mutex // guards the fields below
	taken int
	from  map[netip.Prefix]int // taken, by address
}

// NewSlots limits slots to max in all and maxEach per address; 0 is no limit. A peer without an
// address (the zero prefix) is limited by max only.
func NewSlots(max, maxEach int) *Slots {
	return &Slots{max: max, maxEach: maxEach, from: map[netip.Prefix]int{}}
}

// A FullError says which limit was reached.
type FullError struct {
	From netip.Prefix // zero: the limit of all addresses together
	Max  int
}

// Error implements error.
func (e *FullError) Error() string {
	if e.From.IsValid() {
		return fmt.Sprintf("limit of %d reached for %s", e.Max, e.From)
	}
	return fmt.Sprintf("limit of %d reached", e.Max)
}

// Acquire takes a slot. It returns a *FullError if none is free.
func (s *Slots) Acquire(from netip.Prefix) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.maxEach > 0 && from.IsValid() && s.from[from] >= s.maxEach:
		return &FullError{from, s.maxEach}
	case s.max > 0 && s.taken >= s.max:
		return &FullError{netip.Prefix{}, s.max}
	}
	s.taken++
	s.from[from]++
	return nil
}

// Release frees a slot that Acquire took.
func (s *Slots) Release(from netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.from[from]--; s.from[from] == 0 {
		delete(s.from, from)
	}
}

// Taken returns how many slots are taken, in all and by one address.
func (s *Slots) Taken(from netip.Prefix) (all, each int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.from[from]
}

// Prefix returns the unit in which peers are counted: one address. A network is none, not even an IPv6 /64: all pods of a
// node share one, or all of a cluster (GKE, EKS), and one of them would have the slots of the others. remote is
// "address:port", as in net.Addr and http.Request. Any other peer, such as that of a Unix socket, has no address and gets
// the zero prefix.
func Prefix(remote string) netip.Prefix {
	parsed, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address := parsed.Addr().Unmap().WithZone("")
	return netip.PrefixFrom(address, address.BitLen())
}
