package receiver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// socketMode lets every local process write to a socket file, as Datadog's agent does. The folder
// decides who may reach it.
const socketMode = 0o722

// removeStale removes the socket file of a process that has ended. It is an error if a process
// listens on the socket, or if the file is not a socket.
func removeStale(network, path string) error {
	stat, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case stat.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket; remove it or choose another path", path)
	}
	conn, err := net.Dial(network, path)
	if err == nil {
		_ = conn.Close()
		return syscall.EADDRINUSE
	}
	if errors.Is(err, syscall.EPROTOTYPE) { // a process listens with another socket type
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
