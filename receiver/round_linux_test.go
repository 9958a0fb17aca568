package receiver

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A round of a socket with little to read wakes one thread: not Go's monitor with it, once a round or oftener.
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
			time.Sleep(gatherTime)
		}
		if took := time.Since(began); took < rounds*gatherTime {
			t.Fatalf("%d rounds took %v: want %v each at least", rounds, took, gatherTime)
		}
		least = min(least, switches(t)-before)
	}
	if least > rounds*3/2 {
		t.Errorf("%d switches of threads in %d rounds: want about one each", least, rounds)
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
