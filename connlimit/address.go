package connlimit

import (
	"net"
	"net/netip"
)

// AddressPrefix is the unit in which connections are counted: one IPv4 address, or one IPv6 /64, because a single
// IPv6 host usually owns a whole /64. A Unix socket's peer has no address and gets the zero prefix.
func AddressPrefix(remote net.Addr) netip.Prefix {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return Prefix(tcp.AddrPort().Addr())
}

// Prefix is AddressPrefix for an address without a port.
func Prefix(address netip.Addr) netip.Prefix {
	address, bits := address.Unmap().WithZone(""), 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}
