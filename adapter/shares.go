package adapter

import (
	"net/netip"
	"sync"

	"github.com/sluice-metrics/sluice/connlimit"
)

// shares counts what each address has of something, and gives none more than its share: before it is known who somebody is,
// the address is all there is to tell one from the other.
type shares struct {
	each int

	mu   sync.Mutex
	from map[netip.Prefix]int
}

func newShares(each int) *shares { return &shares{each: each, from: map[netip.Prefix]int{}} }

func (s *shares) enter(from netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from[from] >= s.each {
		return false
	}
	s.from[from]++
	return true
}

func (s *shares) leave(from netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from[from]--; s.from[from] == 0 {
		delete(s.from, from)
	}
}

// prefixOf is what counts as one address: an IPv6 host usually has a whole /64. What is no address at all counts as one.
func prefixOf(remote string) netip.Prefix {
	parsed, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	return connlimit.Prefix(parsed.Addr())
}
