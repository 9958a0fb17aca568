// Package loopback finds addresses for servers that are told where to listen, and that may go and
// come back there.
package loopback

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports of connections that do not ask for one are from 32768 on (net.ipv4.ip_local_port_range).
// One of those would be gone now and then when its server comes back: a connection to anything has
// it.
const first, last = 20000, 32767

var given struct {
	sync.Mutex
	ports map[int]bool
}

// Free is an address, host:port, on which nobody listens, and that no other call in this process
// has returned.
func Free(network string) (string, error) {
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	for range 1000 {
		port := first + rand.IntN(last-first+1)
		if given.ports[port] {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
		if listener, err := listen(network, address); err == nil {
			given.ports[port] = true
			return address, listener.Close()
		}
	}
	return "", errors.New("no port is free on loopback from " + fmt.Sprint(first, " to ", last))
}

func listen(network, address string) (io.Closer, error) {
	if network == "udp" {
		return net.ListenPacket(network, address)
	}
	return net.Listen(network, address)
}
