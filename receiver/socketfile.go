package receiver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// socketMode lets every local process write to a socket file, as Datadog's agent does: who may reach it is
// the directory's to say.
const socketMode = 0o722

// removeStale removes the socket file that a process left behind which is gone. One that somebody listens
// on is in use, and a file that is no socket is not ours to remove.
func removeStale(network, path string) error {
	stat, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case stat.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket: remove it or choose another path", path)
	}
	conn, err := net.Dial(network, path)
	if err == nil {
		_ = conn.Close()
		return syscall.EADDRINUSE
	}
	if errors.Is(err, syscall.EPROTOTYPE) { // somebody listens, in another way
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
