package loopback

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
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

// A block whose lock another process holds is left to it.
func TestBlocksOfOthersAreSkipped(t *testing.T) {
	given.Lock()
	defer given.Unlock()
	theirs := given.block
	file, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprint("sluice-e2e-ports-", theirs)), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // or another process has it already
	if err := takeBlock(); err != nil {
		t.Fatal(err)
	}
	if given.next < first+(theirs+1)*perBlock {
		t.Errorf("the ports from %d on are taken, of a block that another process has", given.next)
	}
}
