package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-metrics/sluice/store"
	"golang.org/x/sys/unix"
)

// Files of the store in its folder.
const (
	storeMarker = "SLUICE"
	storeLock   = "LOCK"
)

// checkDataFolder finds what would stop the store, before any port is opened: who starts a second server by
// mistake is told that, and not that a port is taken. It changes nothing, and settles nothing: the store looks
// again.
func (p *dataPath) checkDataFolder(context.Context) error {
	dir, err := filepath.Abs(p.cfg.store.Dir)
	if err != nil {
		return p.folderFault(err)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the store makes it, or says why not
	}
	if err != nil {
		return p.folderFault(err)
	}
	stranger, marked := "", false
	for _, entry := range entries {
		switch entry.Name() {
		case storeMarker:
			marked = true
		case "lost+found":
		default:
			stranger = entry.Name()
		}
	}
	if stranger != "" && !marked {
		return p.folderFault(fmt.Errorf("%w: it holds %q and no file %s; give an empty folder", store.ErrForeign, stranger, storeMarker))
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return p.folderFault(fmt.Errorf("cannot be written to: %w", err))
	}
	return p.checkLock(filepath.Join(dir, storeLock))
}

// checkLock tries the lock of a running server, and lets go of it again.
func (p *dataPath) checkLock(path string) error {
	lock, err := os.Open(path)
	if err != nil {
		return nil // the store says so, if it matters
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	holder, _ := os.ReadFile(path)
	return p.folderFault(fmt.Errorf("%w by process %s; every sluice needs one of its own", store.ErrInUse, strings.TrimSpace(string(holder))))
}

func (p *dataPath) folderFault(err error) error {
	var setting *settingFault
	errors.As(p.cfg.fault("data-dir", ""), &setting)
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s %s: %w", setting.written, p.cfg.store.Dir, err)
}

// storeFault names the setting where the store could not use its folder, and says what it could not do there.
func (p *dataPath) storeFault(err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	var setting *settingFault
	errors.As(p.cfg.fault("data-dir", ""), &setting)
	return fmt.Errorf("%s %s: %s", setting.written, p.cfg.store.Dir, strings.TrimPrefix(err.Error(), "store: "))
}
