package controlplane

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// nodeAddress is the address of the node, which is this machine, and of pods in the host network.
var nodeAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// addresses assigns addresses to pods. It assigns no address twice unless a test chooses that:
// accidental reuse would make tests flaky. It is not safe for concurrent use.
type addresses struct {
	last   netip.Addr
	chosen map[string][]netip.Addr // by namespace: the addresses of the next pods, in order
	given  map[types.UID]netip.Addr
}

func newAddresses() *addresses {
	return &addresses{
		last:   netip.AddrFrom4([4]byte{127, 0, 1, 0}),
		chosen: map[string][]netip.Addr{},
		given:  map[types.UID]netip.Addr{},
	}
}

// give returns the pod's address, the same in every call.
func (a *addresses) give(namespace string, pod types.UID) netip.Addr {
	if address, ok := a.given[pod]; ok {
		return address
	}
	address := a.next(namespace)
	a.given[pod] = address
	return address
}

func (a *addresses) next(namespace string) netip.Addr {
	if chosen := a.chosen[namespace]; len(chosen) > 0 {
		a.chosen[namespace] = chosen[1:]
		return chosen[0]
	}
	a.last = a.last.Next() // 127.255.255.255 is 16 million pods away
	return a.last
}
