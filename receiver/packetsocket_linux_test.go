package receiver

import (
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/receiver/ledger"
	"golang.org/x/sys/unix"
)

// queuedBytes is the memory of the datagrams that wait in the socket.
func queuedBytes(s *packetSocket) uint32 {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, _ = unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	return info[unix.SK_MEMINFO_RMEM_ALLOC]
}

// A datagram that arrives after stopReceiving is not read; it is a kernel drop.
func TestSealedSocketDropsAndCounts(t *testing.T) {
	f := bind(t, testConfig(udp(1)))
	defer f.server.Close()
	s, conn := f.server.packets[0].socket, f.dial(0)
	for range 3 {
		f.sendQueued(conn, s, []byte("a:1|c"))
	}
	s.stopReceiving()
	for range 5 {
		f.send(conn, "a:1|c")
	}
	f.eventually("5 drops", func() bool { return s.drops() == 5 })
	if n, err := s.receive(); n != 3 || err != nil {
		t.Errorf("%d datagrams, %v; want the 3 from before the seal", n, err)
	}
	if n, _ := s.receive(); n != 0 {
		t.Errorf("%d datagrams behind the seal", n)
	}
}

func TestDropsSurviveTheKernelsWrap(t *testing.T) {
	sockets, err := openPackets(udp(1), slog.Default())
	must(t, err)
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
	must(t, err)
	sockets[0].close()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	sockets[0].close()
	if err := w.Close(); err != nil {
		t.Errorf("another's descriptor was closed: %v", err)
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
		socket := openWithBuffer(t, test.buffer)
		if socket.readBuffer() < test.buffer {
			continue // the system allows less
		}
		for _, wait := range []func(){socket.gatherWait, socket.gatherFew} {
			began := time.Now()
			wait()
			if took := time.Since(began); socket.gather != test.want || took < test.want {
				t.Errorf("a buffer of %d bytes: datagrams gather for %v, which took %v, want %v", test.buffer, socket.gather, took, test.want)
			}
		}
	}
}

func openWithBuffer(t *testing.T, bytes int) *packetSocket {
	t.Helper()
	sockets, err := openPackets(Listener{Network: "udp", Address: "127.0.0.1:0", ReadBuffer: bytes}, slog.Default())
	must(t, err)
	t.Cleanup(sockets[0].close)
	return sockets[0]
}

// A goroutine that is always ready to run, such as the roller with many blocks, keeps Go's scheduler from polling, but
// for once in 10 ms. Gathering ends nevertheless after no more turns of the other goroutine than fit into the wait, or
// into twice the wait where few datagrams come. Turns are counted instead of time, which passes without a turn on a loaded machine.
func TestGatheringEndsWhileOthersAreBusy(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
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
	for _, test := range []struct {
		buffer int
		wait   func(*packetSocket)
		spare  time.Duration
	}{
		{208 << 10, (*packetSocket).gatherWait, 2 * time.Millisecond},
		{208 << 10, (*packetSocket).gatherFew, 2 * time.Millisecond},
		{4 << 20, (*packetSocket).gatherWait, 2 * time.Millisecond},
		{4 << 20, (*packetSocket).gatherFew, 12 * time.Millisecond},
	} {
		socket := openWithBuffer(t, test.buffer)
		var waits []int64
		for range 51 {
			before := turns.Load()
			test.wait(socket)
			waits = append(waits, turns.Load()-before)
		}
		slices.Sort(waits)
		if median, limit := waits[25], int64((socket.gather+test.spare)/turn); median > limit {
			t.Errorf("a buffer of %d bytes: gathering took %d turns of another goroutine (median), want %d at most",
				test.buffer, median, limit)
		}
	}
}

// A datagram that arrives before a wait ends it, also after an earlier wait.
func TestWaitSeesWhatHasArrived(t *testing.T) {
	f := bind(t, testConfig(udp(1)))
	defer f.server.Close()
	s, conn := f.server.packets[0].socket, f.dial(0)
	for i := range 3 {
		f.sendQueued(conn, s, []byte("a:1|c"))
		var over atomic.Bool
		go func() { s.wait(); over.Store(true) }()
		f.eventually("the end of a wait", over.Load)
		if n, err := s.receive(); n != 1 || err != nil {
			t.Fatalf("wait %d: %d datagrams, %v", i, n, err)
		}
	}
}

// A connection that yields is closed before its goroutine removes it. Its descriptor may be another
// connection's by then.
func TestADescriptorOfAnotherConnection(t *testing.T) {
	pipe := func() (from, to int) {
		var ends [2]int
		must(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
		t.Cleanup(func() { _ = unix.Close(ends[1]) })
		return ends[0], ends[1]
	}
	var a arrivals
	defer a.close()
	first, second := &connection{}, &connection{}
	fd, _ := pipe()
	must(t, a.add(fd, first, false))
	from, to := pipe()
	if err := unix.Dup3(from, fd, unix.O_CLOEXEC); err != nil { // closes the first, and uses its number again
		t.Fatal(err)
	}
	_ = unix.Close(from)
	must(t, a.add(fd, second, false))
	a.remove(fd, first)
	if _, err := unix.Write(to, []byte("a:1|c\n")); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(a.unapplied(false), func(w waiting) bool { return w.source == source(second) }) {
		t.Error("the data of the second connection is not looked for")
	}
	_ = unix.Close(fd)
	a.remove(fd, second)
	if n := len(a.watch.events); n != 0 {
		t.Errorf("room for %d events, want none", n)
	}
}

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

// While one goroutine keeps up, one socket gets everything: each socket in use costs wake-ups.
func TestOneSocketGetsEverythingUntilItIsOverloaded(t *testing.T) {
	f := bind(t, testConfig(udp(4)))
	if len(f.server.packets) != 4 {
		t.Fatalf("%d sockets, want 4", len(f.server.packets))
	}
	first := f.server.packets[0].socket
	const senders, each = 32, 10
	var conns []net.Conn
	for range senders {
		conns = append(conns, f.dial(0))
	}
	used := func() uint64 {
		return f.total(func(a *ledger.Account) uint64 { return min(a.Applied(), 1) })
	}
	for range each {
		for _, conn := range conns {
			f.sendQueued(conn, first, []byte("a:1|c"))
		}
	}
	d := &datagrams{in: f.server.newIngester(udp(4), f.server.packets[0].account), turn: turn{all: &f.server.arrivals}, socket: first}
	for full := true; full; {
		n, err := first.receive()
		must(t, err)
		d.applyBatch(n)
		full = n == batchSize
	}
	if got := f.recorder.sum("a"); got != senders*each {
		t.Fatalf("the first socket got %d of %d samples", got, senders*each)
	}
	synctest.Test(t, func(t *testing.T) { // yieldIfBusy reads the clock
		for _, test := range []struct {
			full time.Duration
			want bool
		}{{overloadTime, false}, {overloadTime + 1, true}} {
			now := time.Now()
			d.fullSince, d.busySince = now.Add(-test.full), now.Add(-time.Hour)
			if d.yieldIfBusy(); first.group.spread != test.want {
				t.Fatalf("after %v of full batches the load is spread: %t, want %t", test.full, first.group.spread, test.want)
			}
		}
	})
	d.in.applier.Close()
	f.run()
	for range each {
		for _, conn := range conns {
			f.send(conn, "a:1|c")
		}
	}
	f.eventually("all samples", func() bool { return f.recorder.sum("a") == 2*senders*each })
	if used() < 2 {
		t.Error("the load is not spread")
	}
}
