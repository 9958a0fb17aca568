package loopback

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// A free address can be listened on, is handed out once, and is outside of the range that the
// system uses for connections.
func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 40 {
		for _, network := range []string{"tcp", "udp"} {
			address, err := Free(network)
			must(t, err)
			if seen[address] {
				t.Fatalf("%s is given twice", address)
			}
			seen[address] = true
			if _, port, _ := net.SplitHostPort(address); len(port) != 5 || port >= "32768" {
				t.Errorf("%s is among the ports of connections", address)
			}
			listener, err := listen(network, address)
			must(t, err)
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
	must(t, err)
	defer file.Close()
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // or another process has it already
	must(t, takeBlock())
	if given.next < first+(theirs+1)*perBlock {
		t.Errorf("the ports from %d on are taken, of a block that another process has", given.next)
	}
}

// An address can be listened on at once, whatever processes are started meanwhile: a child has the listeners of its
// parent until it runs its own program.
func TestFreeBesideStarts(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip("skipped: there is no program true")
	}
	ended := make(chan struct{})
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					_ = exec.Command(program).Run()
				}
			}
		})
	}
	for range 60 {
		address, err := Free("tcp")
		if err != nil {
			t.Error(err)
			break
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			break
		}
		listener.Close()
	}
	close(ended)
	starts.Wait()
}

func listen(network, address string) (io.Closer, error) {
	if network == "udp" {
		return net.ListenPacket(network, address)
	}
	return net.Listen(network, address)
}

// An address on which somebody listens, of either family, is not free.
func TestTaken(t *testing.T) {
	for _, network := range []string{"tcp", "udp"} {
		for _, host := range []string{"127.0.0.1", "0.0.0.0", "[::1]", "[::]"} {
			address, err := Free(network)
			must(t, err)
			_, port, _ := net.SplitHostPort(address)
			number, _ := strconv.Atoi(port)
			listener, err := listen(network, host+":"+port)
			if err != nil {
				t.Skipf("skipped: %v", err)
			}
			if is, err := taken(network, number); err != nil || !is {
				t.Errorf("%s %s:%s: taken is %v (%v), want true", network, host, port, is, err)
			}
			listener.Close()
		}
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
