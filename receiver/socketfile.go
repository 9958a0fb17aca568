package receiver

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
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
		return errNoSocket(path)
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

// place returns the path to bind a socket at, and a function that then moves it to its own path. A socket
// that takes over is bound beside the former one and renamed, so the path always has a socket, and clients
// of the former one keep it. The temporary name is short, because the system bounds a path.
func (l Listener) place() (at string, put func() (socketFile, error), err error) {
	if !l.TakesOver {
		err := removeStale(l.Network, l.Address)
		return l.Address, func() (socketFile, error) { return claim(l.Address) }, err
	}
	if stat, err := os.Lstat(l.Address); err == nil && stat.Mode().Type() != fs.ModeSocket {
		return "", nil, errNoSocket(l.Address)
	}
	at = filepath.Join(filepath.Dir(l.Address), ".s"+strconv.FormatUint(uint64(rand.Uint32()), 36))
	return at, func() (socketFile, error) {
		file, err := claim(at)
		if err == nil {
			err = os.Rename(at, l.Address)
		}
		if err != nil {
			file.remove()
			return socketFile{}, err
		}
		file.path = l.Address
		return file, nil
	}, nil
}

func errNoSocket(path string) error {
	return fmt.Errorf("%s exists and is not a socket; remove it or choose another path", path)
}

// A socketFile is the file of a socket that this process bound. The zero value is none.
type socketFile struct {
	path string
	made os.FileInfo
}

// claim sets the mode of the socket file that was just bound. Another process may already have put
// something in its place: a symbolic link is not followed.
func claim(path string) (socketFile, error) {
	made, err := os.Lstat(path)
	if err != nil {
		return socketFile{}, err
	}
	if made.Mode().Type() != fs.ModeSocket {
		return socketFile{}, errReplaced(path)
	}
	return socketFile{path, made}, chmodSocket(path)
}

func errReplaced(path string) error {
	return fmt.Errorf("%s is not the socket that was bound; another process has replaced it", path)
}

// remove removes the file, unless another has taken its place. The socket must be open: it keeps the
// file's inode from being used again.
func (f *socketFile) remove() {
	if now, err := os.Lstat(f.path); err == nil && os.SameFile(f.made, now) {
		_ = os.Remove(f.path)
	}
	*f = socketFile{}
}

// unixListener is a listener that removes no file but its own.
type unixListener struct {
	*net.UnixListener
	file  socketFile
	close sync.Once
}

func newUnixListener(listener *net.UnixListener, put func() (socketFile, error)) (*unixListener, error) {
	listener.SetUnlinkOnClose(false)
	file, err := put()
	l := &unixListener{UnixListener: listener, file: file}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Addr implements net.Listener: the socket may have been bound at another path.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: l.file.path} }

// Close implements net.Listener.
func (l *unixListener) Close() (err error) {
	l.close.Do(func() {
		l.file.remove()
		err = l.UnixListener.Close()
	})
	return err
}
