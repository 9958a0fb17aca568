package receiver

import (
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A datagram that arrives after stopReceiving is not read; it is a kernel drop.
func TestSealedSocketDropsAndCounts(t *testing.T) {
	sockets, err := openPackets(udp(1), slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	s := sockets[0]
	defer s.close()
	conn, err := net.Dial("udp", s.address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(n int) {
		for range n {
			if _, err := conn.Write([]byte("a:1|c")); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(3)
	s.stopReceiving()
	send(5)
	if n, err := s.receive(); n != 3 || err != nil {
		t.Errorf("%d datagrams, %v; want the 3 from before the seal", n, err)
	}
	if n, _ := s.receive(); n != 0 {
		t.Errorf("%d datagrams behind the seal", n)
	}
	if s.drops() != 5 {
		t.Errorf("%d drops, want 5", s.drops())
	}
}

func TestDropsSurviveTheKernelsWrap(t *testing.T) {
	sockets, err := openPackets(udp(1), slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	s := sockets[0]
	defer s.close()
	s.lastDrops, s.totalDrops = 1<<32-7, 1<<32-7 // then the kernel's counter, which says 0, has wrapped
	if got := s.drops(); got != 1<<32 {
		t.Errorf("%d drops, want %d", got, uint64(1<<32))
	}
}

// By the second close, the descriptors' numbers are somebody else's.
func TestSecondCloseDoesNothing(t *testing.T) {
	sockets, err := openPackets(udp(1), slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	sockets[0].close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sockets[0].close()
	if err := w.Close(); err != nil {
		t.Errorf("another's descriptor was closed: %v", err)
	}
}

// A round of a socket with little to read wakes one thread: not Go's monitor with it, once a round
// or oftener.
func TestARoundWakesOneThread(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	sockets, err := openPackets(Listener{Network: "udp", Address: "127.0.0.1:0", Sockets: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	socket := sockets[0]
	defer socket.close()
	const rounds = 300
	least := int64(1 << 62)
	for range 3 { // the machine may be at other work
		before, began := switches(t), time.Now()
		for range rounds {
			if n, err := socket.receive(); n != 0 || err != nil {
				t.Fatal(n, err)
			}
			socket.gatherWait()
		}
		if took := time.Since(began); took < rounds*leastGather {
			t.Fatalf("%d rounds took %v: want %v each at least", rounds, took, leastGather)
		}
		least = min(least, switches(t)-before)
	}
	if least > rounds*3/2 {
		t.Errorf("%d switches of threads in %d rounds: want about one each", least, rounds)
	}
}

// Datagrams gather for as long as the receive buffer holds what the kernel delivers meanwhile.
func TestGatherTimeFollowsTheReadBuffer(t *testing.T) {
	for _, test := range []struct {
		buffer int
		want   time.Duration
	}{
		{4096, leastGather},
		{208 << 10, leastGather}, // the default of most systems
		{1 << 20, 2500 * time.Microsecond},
		{4 << 20, mostGather},
		{16 << 20, mostGather},
	} {
		sockets, err := openPackets(Listener{Network: "udp", Address: "127.0.0.1:0", ReadBuffer: test.buffer}, slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		if got := sockets[0].gatherTime(); got != test.want && sockets[0].readBuffer() >= test.buffer {
			t.Errorf("a buffer of %d bytes: datagrams gather for %v, want %v", test.buffer, got, test.want)
		}
		sockets[0].close()
	}
}

// switches is how often the process's threads went to sleep.
func switches(t *testing.T) int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return usage.Nvcsw
}

// A goroutine that is always ready to run, such as the roller with many blocks, keeps Go's
// scheduler from polling. Gathering ends nevertheless: the other goroutine has no more turns than fit
// into the wait. Turns are counted instead of time, which passes without a turn on a loaded machine.
func TestGatheringEndsWhileOthersAreBusy(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	sockets, err := openPackets(udp(1), slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer sockets[0].close()
	const turn = time.Millisecond / 2
	var turns atomic.Int64
	halt := make(chan struct{})
	defer close(halt)
	go func() {
		for {
			select {
			case <-halt:
				return
			default:
			}
			for slice := time.Now(); time.Since(slice) < turn; {
			}
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	var waits []int64 // a wait in the poller alone takes 10 ms
	for range 51 {
		before := turns.Load()
		sockets[0].gatherWait()
		waits = append(waits, turns.Load()-before)
	}
	slices.Sort(waits)
	if median, most := waits[25], int64((sockets[0].gatherTime()+2*time.Millisecond)/turn); median > most {
		t.Errorf("gathering took %d turns of another goroutine (median), want %d at most", median, most)
	}
}
