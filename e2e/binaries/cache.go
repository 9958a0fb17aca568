package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// cacheVariable is an environment variable with a folder to use instead of the user's cache folder.
const cacheVariable = "SLUICE_E2E_CACHE"

func cacheFolder() (string, error) {
	folder := os.Getenv(cacheVariable)
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no folder for the built binaries (%w); set %s", err, cacheVariable)
		}
		folder = filepath.Join(cache, "sluice-e2e")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	return folder, os.MkdirAll(folder, 0o755)
}

// lock takes a file's lock, which the kernel releases if the process dies. It polls: a blocking
// call could not be cancelled.
func lock(ctx context.Context, path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock of %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for another build (%s): %w", path, ctx.Err()), file.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
