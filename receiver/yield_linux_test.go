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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer turn.close()
	for range 400 {
		turn.yield()
	}
	// A round takes two turns, now and then more. Without the poller, all turns together take less
	// time than it is asked for by itself.
	if n := rounds.Load(); n < 10 {
		t.Errorf("%d rounds in 400 turns, want 10 at least", n)
	}
}

func BenchmarkTurn(b *testing.B) {
	turn, err := newNetYielder()
	if err != nil {
		b.Fatal(err)
	}
	defer turn.close()
	b.ReportAllocs()
	for b.Loop() {
		turn.yield()
	}
}
