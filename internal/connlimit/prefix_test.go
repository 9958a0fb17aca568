package connlimit

import (
	"net/netip"
	"testing"
)

// Pods share an IPv6 /64: those of a node, or of a cluster.
func TestPodsOfANetworkAreCountedApart(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"10.0.0.1", "10.0.0.1", true}, {"10.0.0.1", "10.0.0.2", false}, {"::ffff:10.0.0.1", "10.0.0.1", true},
		{"2001:db8::1", "2001:db8::2", false}, {"2001:db8::1", "2001:db8:0:0:0::1", true}, {"fe80::1%lo", "fe80::1", true},
	} {
		a := Prefix(netip.AddrPortFrom(netip.MustParseAddr(c.a), 1).String())
		b := Prefix(netip.AddrPortFrom(netip.MustParseAddr(c.b), 1).String())
		if !a.IsValid() || (a == b) != c.same {
			t.Errorf("%s %v, %s %v", c.a, a, c.b, b)
		}
	}
}
