package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/durable"
)

// lockPatience is how long the database's process may outlive a store that was killed.
const lockPatience = 2 * time.Second

// CheckFolder finds what would stop Open: a directory that is not ours, or in use. It changes nothing and settles
// nothing: Open looks again. A directory that is missing is no fault.
func CheckFolder(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if _, err := readMarker(dir); err != nil {
		return err
	}
	lock, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return nil // Open says so, if it matters
	}
	defer lock.Close()
	if err := flock(lock, syscall.LOCK_SH); errors.Is(err, syscall.EWOULDBLOCK) {
		return inUseError(dir)
	}
	return nil
}

func flock(file *os.File, how int) error {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Since(began) > lockPatience {
			return err
		}
	}
}

// lockFolder holds the directory until the file is closed or the process ends, and with it that of the database. The number in it is for
// the message alone.
func lockFolder(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("store: cannot lock the data directory: %w", err)
	}
	if err := flock(file, syscall.LOCK_EX); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("store: %s: %w", dir, inUseError(dir))
		}
		return nil, fmt.Errorf("store: cannot lock the data directory %s: %w", dir, err)
	}
	if err := writeHolder(file); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("store: cannot write to the data directory: %w", err)
	}
	return file, nil
}

// inUseError names the process that has the lock. One that is not running here left the lock to the process of its
// database, which cannot end while the disk stands still, or it runs in another container.
func inUseError(dir string) error {
	text, _ := os.ReadFile(filepath.Join(dir, lockName))
	holder := strings.TrimSpace(string(text))
	if pid, err := strconv.Atoi(holder); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		holder += ", which does not run here any more: its database's process waits for the disk, or it runs in another container"
	}
	return fmt.Errorf("%w by process %s; every sluice needs a folder of its own", ErrInUse, holder)
}

// writeHolder writes which process has the lock, over what stood there: on a full disk the file keeps its block, and without one the
// number is missing.
func writeHolder(file *os.File) error {
	text := fmt.Appendf(nil, "%d\n", os.Getpid())
	_, err := file.WriteAt(text, 0)
	if durable.IsFull(err) {
		return nil
	}
	return errors.Join(err, file.Truncate(int64(len(text))))
}

// checkLock says whether the lock is still that of the directory. A file that was removed, or replaced, lets a second
// process in.
func (f *folder) checkLock() error {
	path := filepath.Join(f.dir, lockName)
	now, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // whether it is there cannot be seen
	}
	ours, statErr := f.lock.Stat()
	if statErr != nil || err == nil && os.SameFile(now, ours) {
		return nil
	}
	return fmt.Errorf("the lock file %s was removed or replaced, a second sluice could use the folder: restart this one", path)
}
