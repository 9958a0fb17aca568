package torture

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

const (
	mebibyte = int64(1) << 20
	// diskBytes suffices for a database and for the minimum of free space.
	diskBytes = 800 * mebibyte
)

// TestFullDisk fills the disk under load. Lines are accepted all the time, /readyz says that
// nothing is persisted, and with free space all of them are written.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	s, disk := newServerOn(t, func(path string) *mounted {
		return mountImage(t, filepath.Join(t.TempDir(), "disk.img"), path, diskBytes, withJournal)
	})
	s.Start()
	books := newLineBooks(t, s)
	books.send(100)
	s.PutSynced("e2e", "depth", 1)
	rounds := server.ShortOrLong(2, 20)
	for range rounds {
		giveBack := disk.fillUp(8 << 20)
		books.eventuallyOff("the disk is full")
		books.send(100)
		if err := push(s, http.MethodPut, "depth?sync=true", 2); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("a push with ?sync=true on a full disk: %v; want 503", err)
		}
		giveBack()
		awaitPersisting(t, s)
		s.PutSynced("e2e", "depth", 3)
	}
	s.Kill()
	giveBack := disk.fillUp(8 << 20)
	s.Start() // a start on a full disk restores what is there
	books.check("after a start on the full disk")
	giveBack()
	awaitPersisting(t, s)
	books.send(100)
	s.Stop()
	s.Start()
	books.check("after the end")
	figure(t, "disk full %d times: %d lines taken meanwhile, 0 lost; ?sync=true refused with 503; a start on the full disk restored", rounds+1, books.sent)
}

// TestFrozenDisk stalls the disk under load: no write completes, and every writer waits.
func TestFrozenDisk(t *testing.T) {
	needRoot(t)
	var beneath *mounted
	s, _ := newServerOn(t, func(path string) *mounted {
		dir := t.TempDir()
		lazy := []string{"-E", "lazy_itable_init=1,lazy_journal_init=1"}
		beneath = mountImage(t, filepath.Join(dir, "beneath.img"), filepath.Join(dir, "beneath"), 2*diskBytes, withJournal, lazy...)
		return mountImage(t, filepath.Join(dir, "beneath", "disk.img"), path, diskBytes, withJournal, lazy...)
	})
	s.Start()
	books := newLineBooks(t, s)
	books.send(100)
	s.PutSynced("e2e", "depth", 1)
	rounds := server.ShortOrLong(1, 10)
	for range rounds {
		thaw := beneath.freeze()
		books.send(100)
		acknowledged := make(chan error, 1)
		go func() { acknowledged <- push(s, http.MethodPut, "depth?sync=true", 2) }()
		server.Within(t, func() string {
			books.sendLabels(200) // what is written anew has to wait first
			checks, err := s.Checks()
			if says := checks["store"]; err != nil || !says.Ready || !strings.HasPrefix(says.Detail, "the disk does not keep up") {
				return fmt.Sprintf("the disk stands still, but /readyz says %+v (%v)", says, err)
			}
			return ""
		})
		books.send(100)
		select {
		case err := <-acknowledged:
			if err == nil {
				t.Error("a push with ?sync=true was acknowledged while the disk stood still")
			}
			thaw()
		default:
			thaw()
			<-acknowledged
		}
		awaitPersisting(t, s)
	}
	s.PutSynced("e2e", "depth", 3)
	s.Kill()
	s.Start()
	books.check("after a kill")
	figure(t, "disk frozen %d times: %d lines taken meanwhile, 0 lost", rounds, books.sent)
}

// lineBooks count the lines sent to a server one by one over TCP.
type lineBooks struct {
	t    *testing.T
	s    *server.Server
	sent int
}

func newLineBooks(t *testing.T, s *server.Server) *lineBooks { return &lineBooks{t: t, s: s} }

// send sends increments, and waits until all are applied.
func (b *lineBooks) send(lines int) {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.s.TCP)
	must(b.t, err, "connect")
	defer conn.Close()
	_, err = conn.Write([]byte(strings.Repeat("jobs:1|c\n", lines)))
	must(b.t, err, "send")
	b.sent += lines
	server.Within(b.t, func() string {
		if got := b.s.Sum("jobs:total"); got != float64(b.sent) {
			return fmt.Sprintf("jobs:total is %v, want %d", got, b.sent)
		}
		return ""
	})
}

// check reads the total without waiting.
func (b *lineBooks) check(when string) {
	b.t.Helper()
	if got := b.s.Sum("jobs:total"); got != float64(b.sent) {
		b.t.Errorf("%s: jobs:total is %v, want %d", when, got, b.sent)
	}
}

// eventuallyOff waits until /readyz and the metrics say that nothing is persisted. The server
// stays ready.
func (b *lineBooks) eventuallyOff(because string) {
	b.t.Helper()
	server.Within(b.t, func() string {
		checks, err := b.s.Checks()
		says := checks["store"]
		if err != nil || !says.Ready || !strings.HasPrefix(says.Detail, "not persisting") || b.s.Metrics()["sluice_store_persisting"] != 0 {
			return fmt.Sprintf("%s, but /readyz says %+v (%v)", because, says, err)
		}
		return ""
	})
}

// sendLabels sends increments of jobs with new labels.
func (b *lineBooks) sendLabels(lines int) {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.s.TCP)
	must(b.t, err, "connect")
	defer conn.Close()
	var text strings.Builder
	for range lines {
		b.sent++
		fmt.Fprintf(&text, "jobs:1|c|#n:%d\n", b.sent)
	}
	_, err = conn.Write([]byte(text.String()))
	must(b.t, err, "send")
}
