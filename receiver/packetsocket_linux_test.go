package receiver

import (
	"log/slog"
	"net"
	"os"
	"testing"
)

// What comes in behind the seal is not read, and is a kernel drop.
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
	s.seal()
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
