package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/internal/durable"
)

// lockTimeout bounds the wait for a lock: the storage process may outlive a server that was killed
// by that much.
const lockTimeout = 2 * time.Second

// Check reports what would stop Open: a folder that isn't ours, or in use. It changes nothing. Open
// checks again. A missing folder is no fault.
func Check(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if _, err := readMarker(dir); err != nil {
		return err
	}
	lock, err := os.Open(filepath.Join(dir, LockName))
	if err != nil {
		return nil // Open reports it, if it matters
	}
	defer lock.Close()
	if err := flock(lock, syscall.LOCK_SH); errors.Is(err, syscall.EWOULDBLOCK) {
		return inUseError(dir)
	}
	return nil
}

// flock tries for lockTimeout of running time: a process that was suspended must not find that its
// time is over. A child that this process forks has copies of all descriptors until its exec, and
// with one of them the lock of a folder that was released meanwhile. ForkLock waits for its exec.
func flock(file *os.File, how int) error {
	const pause = 5 * time.Millisecond
	for tries := lockTimeout / pause; ; tries-- {
		syscall.ForkLock.RLock()
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		syscall.ForkLock.RUnlock()
		if !errors.Is(err, syscall.EWOULDBLOCK) || tries == 0 {
			return err
		}
		time.Sleep(pause)
	}
}

// lockFolder locks the folder, and with it the database, until the file is closed in every process
// that has it open. The process number in the file is only for error messages.
func lockFolder(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("store: cannot lock the data folder: %w", err)
	}
	if err := flock(file, syscall.LOCK_EX); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("store: %s: %w", dir, inUseError(dir))
		}
		return nil, fmt.Errorf("store: cannot lock the data folder %s: %w", dir, err)
	}
	if err := writeHolder(file); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("store: cannot write to the data folder: %w", err)
	}
	return file, nil
}

// inUseError names the process that holds the lock. Where that process doesn't run here, it left
// the lock to its storage process, which can't end while the disk is stalled, or it runs in another
// container.
func inUseError(dir string) error {
	text, _ := os.ReadFile(filepath.Join(dir, LockName))
	holder := strings.TrimSpace(string(text))
	if pid, err := strconv.Atoi(holder); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		holder += ", which has ended but whose storage process still waits for the disk, or which runs in another container"
	}
	return fmt.Errorf("%w by process %s; stop it, or give this sluice a folder of its own", ErrInUse, holder)
}

// writeHolder writes the process number over the former one. On a full disk the file keeps its
// block; without a block the number is missing.
func writeHolder(file *os.File) error {
	text := fmt.Appendf(nil, "%d\n", os.Getpid())
	_, err := file.WriteAt(text, 0)
	if durable.IsFull(err) {
		return nil
	}
	return errors.Join(err, file.Truncate(int64(len(text))))
}

// CheckLock reports whether the lock file is still the one that we hold. A lock file that was
// removed or replaced lets a second process in.
func (f *Folder) CheckLock() error {
	path := filepath.Join(f.Dir, LockName)
	now, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // unknown
	}
	ours, statErr := f.lock.Stat()
	if statErr != nil || err == nil && os.SameFile(now, ours) {
		return nil
	}
	return fmt.Errorf("the lock file %s was removed or replaced, so a second sluice could use the folder; restart this one", path)
}
