package httpserver

import (
	"net"
	"testing"
)

// A web page reaches any listener by DNS rebinding, except one in a cluster that other machines
// reach, too.
func TestListenersWhoseHostIsChecked(t *testing.T) {
	loopback, all := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv6zero}
	for _, c := range []struct {
		listener  net.Addr
		inCluster bool
		want      bool
	}{{loopback, false, true}, {all, false, true}, {loopback, true, true}, {all, true, false}} {
		if got := checksHosts(c.listener, c.inCluster); got != c.want {
			t.Errorf("%v, in a cluster: %v: checked: %v, want %v", c.listener, c.inCluster, got, c.want)
		}
	}
}
