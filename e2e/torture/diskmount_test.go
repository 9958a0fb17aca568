package torture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
	"golang.org/x/sys/unix"
)

// A mounted is a file system that a test mounted. It is unmounted with the test.
type mounted struct {
	t    *testing.T
	path string
}

// Options of mount for images: an error is reported and changes nothing. The journal is written
// each second, so a stalled disk shows soon.
const (
	withJournal    = "loop,errors=continue,commit=1"
	withoutJournal = "loop,errors=continue"
)

// mountImage mounts a new ext4 file system, kept in a sparse file of another one, with options for
// mount and mkfs.ext4.
func mountImage(t *testing.T, image, at string, bytes int64, mounting string, making ...string) *mounted {
	t.Helper()
	must(t, os.WriteFile(image, nil, 0o600), "make an image")
	must(t, os.Truncate(image, bytes), "size the image")
	run(t, "mkfs.ext4", append(append([]string{"-q", "-F"}, making...), image)...)
	return mount(t, at, "-o", mounting, image)
}

func mount(t *testing.T, at string, args ...string) *mounted {
	t.Helper()
	must(t, os.MkdirAll(at, 0o700), "make a mount point")
	run(t, "mount", append(args, at)...)
	m := &mounted{t, at}
	t.Cleanup(m.unmount)
	return m
}

// run skips the test where a tool is missing or the machine forbids the fault.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Skipf("skipped: %s %s: %v: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
}

// unmount waits for dying processes that still have a file open.
func (m *mounted) unmount() {
	m.t.Helper()
	var err error
	for deadline := time.Now().Add(server.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = unix.Unmount(m.path, 0); err == nil || err == syscall.EINVAL { // EINVAL: it is not mounted any more
			return
		}
	}
	m.t.Errorf("unmount %s: %v", m.path, err)
}

// FIFREEZE and FITHAW of linux/fs.h.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// freeze stops all writes to the file system until it is thawed: every writer waits.
func (m *mounted) freeze() (thaw func()) {
	m.t.Helper()
	dir, err := os.Open(m.path)
	must(m.t, err, "open the file system")
	must(m.t, unix.IoctlSetInt(int(dir.Fd()), fiFreeze, 0), "freeze %s", m.path)
	thaw = sync.OnceFunc(func() {
		if err := unix.IoctlSetInt(int(dir.Fd()), fiThaw, 0); err != nil {
			m.t.Errorf("thaw %s: %v", m.path, err)
		}
		_ = dir.Close()
	})
	time.AfterFunc(2*time.Minute, thaw) // should this process come to wait for the disk itself
	m.t.Cleanup(thaw)
	return thaw
}

// fillUp takes the file system's free space except for some bytes, and returns a function that
// gives it back.
func (m *mounted) fillUp(leave uint64) (giveBack func()) {
	m.t.Helper()
	var disk syscall.Statfs_t
	must(m.t, syscall.Statfs(m.path, &disk), "look at the room of %s", m.path)
	free := disk.Bavail * uint64(disk.Bsize)
	path := filepath.Join(m.path, "lost+found", "filler")
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		path = filepath.Join(m.path, "filler")
	}
	file, err := os.Create(path)
	must(m.t, err, "make a file")
	must(m.t, syscall.Fallocate(int(file.Fd()), 0, 0, int64(free-min(free-1, leave))), "fill %s", m.path)
	must(m.t, file.Close(), "close the filler")
	return func() { must(m.t, os.Remove(path), "remove the filler") }
}

// newServerOn prepares a server whose data folder is a file system of its own. mountAt mounts it.
func newServerOn(t *testing.T, mountAt func(path string) *mounted, flags ...string) (*server.Server, *mounted) {
	t.Helper()
	s := server.New(t, flags...)
	disk := mountAt(s.DataDir())
	t.Cleanup(s.Kill) // before the file system goes
	return s, disk
}
