package connlimit

import "net/netip"

// Prefix returns the unit in which peers are counted: one IPv4 address, or one IPv6 /64, because an
// IPv6 host usually owns a whole /64. remote is "address:port", as in net.Addr and http.Request.
// Any other peer, such as that of a Unix socket, has no address and gets the zero prefix.
func Prefix(remote string) netip.Prefix {
	parsed, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := parsed.Addr().Unmap().WithZone(""), 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}
