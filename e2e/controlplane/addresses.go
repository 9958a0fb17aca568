package controlplane

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// nodeAddress is the node's own, and so that of pods in its network: this machine is the node.
var nodeAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// addresses are assigned to pods. None is assigned twice unless a test chooses it: chance reuse
// would make tests fail by chance. Not safe for concurrent use.
type addresses struct {
	last   netip.Addr
	chosen map[string][]netip.Addr // by namespace, in the order in which its next pods get them
	given  map[types.UID]netip.Addr
}

func newAddresses() *addresses {
	return &addresses{
		last:   netip.AddrFrom4([4]byte{127, 0, 1, 0}),
		chosen: map[string][]netip.Addr{},
		given:  map[types.UID]netip.Addr{},
	}
}

// give returns the pod's address, the same at each call.
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
