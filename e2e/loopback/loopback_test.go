package loopback

import (
	"net"
	"testing"
)

// A free address can be listened on, is handed out once, and is outside of the range that the
// system uses for connections.
func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		for _, network := range []string{"tcp", "udp"} {
			address, err := Free(network)
			if err != nil {
				t.Fatal(err)
			}
			if seen[address] {
				t.Fatalf("%s is given twice", address)
			}
			seen[address] = true
			if _, port, _ := net.SplitHostPort(address); len(port) != 5 || port >= "32768" {
				t.Errorf("%s is among the ports of connections", address)
			}
			listener, err := listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
		}
	}
}
