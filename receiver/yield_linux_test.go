package receiver

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// A goroutine that is always ready lets those run that wait for the network: on one processor,
// where nothing else would.
func TestTurnsAreTakenWithTheNetwork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	var rounds atomic.Int64
	go func() {
		conn, err := listener.Accept()
		for err == nil {
			var one [1]byte
			if _, err = conn.Read(one[:]); err == nil {
				_, err = conn.Write(one[:])
			}
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	defer conn.Close()
	go func() {
		var one [1]byte
		for {
			if _, err := conn.Write(one[:]); err != nil {
				return
			}
			if _, err := conn.Read(one[:]); err != nil {
				return
			}
			rounds.Add(1)
		}
	}()
	turn, err := newNetYielder()
	must(t, err)
	defer turn.close()
	// A round takes two turns, and more while the kernel delivers later than at once. Without the
	// poller, the scheduler asks for the network every 10 ms by itself, which is millions of turns.
	const most = 100_000
	turns := 0
	for ; turns < most && rounds.Load() < 10; turns++ {
		turn.yield()
	}
	if turns == most {
		t.Errorf("%d rounds in %d turns, want 10", rounds.Load(), turns)
	}
}
