package torture

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// TestFailingDisk makes the disk fail under load: new blocks can't be written. Lines are accepted
// all the time. After the disk is repaired, everything acknowledged since is there after a kill,
// read from the disk itself.
func TestFailingDisk(t *testing.T) {
	needRoot(t)
	var beneath, disk *mounted
	var image string
	s, _ := newServerOn(t, func(path string) *mounted {
		beneath = mountTmpfs(t, t.TempDir(), "1g")
		image = filepath.Join(beneath.path, "disk.img")
		disk = mountImage(t, image, path, diskBytes, withoutJournal, "-O", "^has_journal", "-E", "lazy_itable_init=0")
		// All blocks get memory, then the free ones give theirs back, so only writing a new block
		// fails. The file system's own data stays intact.
		file, err := os.OpenFile(image, os.O_RDWR, 0)
		must(t, err, "open the image")
		defer file.Close()
		must(t, syscall.Fallocate(int(file.Fd()), 0, 0, diskBytes), "allocate the image")
		run(t, "fstrim", path)
		return disk
	})
	s.Start()
	books := newLineBooks(t, s)
	books.send(100)
	s.PutSynced("e2e", "depth", 1)
	rounds := server.ShortOrLong(2, 20)
	for round := range rounds {
		run(t, "fstrim", disk.path)
		giveBack := beneath.fillUp(0)
		server.Within(t, func() string { // more and more of the disk is written to, until it fails
			books.sendLabels(2000)
			_ = push(s, http.MethodPut, "depth?sync=true", -1)
			checks, err := s.Checks()
			if says := checks["store"]; err != nil || !says.Ready || !strings.HasPrefix(says.Detail, "not persisting") {
				return fmt.Sprintf("the disk fails, but /readyz says %+v (%v)", says, err)
			}
			return ""
		})
		if s.Metrics()["sluice_store_failures_total"] == 0 {
			t.Error("sluice_store_failures_total is 0, though the disk failed")
		}
		books.send(100)
		giveBack()
		awaitPersisting(t, s)
		s.PutSynced("e2e", "depth", float64(round))
		s.Kill()
		disk.remount(image)
		s.Start()
		if got := s.Sum("depth"); got != float64(round) {
			t.Errorf("depth is %v, want %d: that was acknowledged after the disk was mended; /readyz says %s", got, round, storeSays(s))
		}
		books.check("after a kill, read from the disk itself")
	}
	figure(t, "disk failed %d times: %d lines taken, 0 lost once it was mended, read from the disk itself", rounds, books.sent)
}

// mountTmpfs mounts memory of a size that can be changed.
func mountTmpfs(t *testing.T, at, size string) *mounted {
	t.Helper()
	return mount(t, at, "-t", "tmpfs", "-o", "size="+size, "tmpfs")
}

// remount drops what is only in memory, so later reads come from the disk.
func (m *mounted) remount(image string) {
	m.t.Helper()
	m.unmount()
	run(m.t, "mount", "-o", withoutJournal, image, m.path)
}
