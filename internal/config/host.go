package config

import (
	"net"
	"net/netip"
	"strings"
)

// HostName is the name in a Host header, without its port, in lower case.
func HostName(host string) string {
	if alone, _, err := net.SplitHostPort(host); err == nil {
		host = alone
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// IsThisMachine reports whether a Host header is empty, an address or a name of this machine. With
// DNS rebinding, where a web page's own name resolves to 127.0.0.1, Host has that name. Browsers
// always send one.
func IsThisMachine(host string) bool {
	name := HostName(host)
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}
