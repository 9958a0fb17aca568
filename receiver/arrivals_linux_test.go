package receiver

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// socketOf is a source that reads one buffer at a time, each of which takes a while to apply.
type socketOf struct {
	fd    int
	takes time.Duration
	reads int
	then  func() // after the first read; may be nil
}

func (s *socketOf) isBusy() bool { return false }

func (s *socketOf) freshen(until time.Time) {
	var buffer [firstRead]byte
	for {
		_, _ = unix.Read(s.fd, buffer[:])
		s.reads++
		time.Sleep(s.takes)
		if s.reads == 1 && s.then != nil {
			s.then()
		}
		if n, _ := unix.IoctlGetInt(s.fd, unix.TIOCINQ); n == 0 || !time.Now().Before(until) {
			return
		}
	}
}

// sockets are arrivals of connections that hold data.
type sockets struct {
	arrivals
	t *testing.T
}

func (s *sockets) holding(bytes int, takes time.Duration) *socketOf {
	s.t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(s.t, err)
	s.t.Cleanup(func() { _, _ = unix.Close(ends[0]), unix.Close(ends[1]) })
	if n, err := unix.Write(ends[1], make([]byte, bytes)); n != bytes {
		s.t.Fatal(err)
	}
	one := &socketOf{fd: ends[0], takes: takes}
	must(s.t, s.add(one.fd, one, false))
	return one
}

// A flood of full connections delays a read or a push by a few of them, and what others have sent is applied.
func TestFullConnectionsDelayNoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sockets{t: t}
		defer s.close()
		var flood, quiet []*socketOf
		for i := range 256 {
			flood = append(flood, s.holding(2*firstRead, time.Millisecond))
			if i%16 == 0 {
				quiet = append(quiet, s.holding(100, 0))
			}
		}
		s.freshen()
		const most = firstBytes / firstRead
		reads := 0
		for _, one := range flood {
			reads += one.reads
		}
		if reads < most || reads > most+most/2 {
			t.Errorf("%d reads of connections that flood, want about %d", reads, most)
		}
		for i, one := range quiet {
			if one.reads != 1 {
				t.Errorf("Connection %d, which does not flood, was read %d times", i, one.reads)
			}
		}
	})
}

// Connections that are accepted meanwhile have no other one read again.
func TestNewConnectionsRepeatNoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sockets{t: t}
		defer s.close()
		one := s.holding(3*firstRead, time.Minute)
		one.then = func() { s.holding(firstRead, time.Minute) }
		if s.freshen(); one.reads != 1 {
			t.Errorf("It was read %d times", one.reads)
		}
	})
}

// A process that is stalled reads each connection all the same.
func TestAStallSkipsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sockets{t: t}
		defer s.close()
		var all []*socketOf
		for range 200 {
			all = append(all, s.holding(firstRead/16, time.Minute))
		}
		s.freshen()
		for i, one := range all {
			if one.reads != 1 {
				t.Errorf("Connection %d was read %d times", i, one.reads)
			}
		}
	})
}
