// Package loopback finds addresses for servers that are told where to listen, and that may go and
// come back there.
package loopback

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Ports of connections that do not ask for one are from 32768 on (net.ipv4.ip_local_port_range).
// One of those would be gone now and then when its server comes back: a connection to anything has
// it.
const first, last = 20000, 32767

// perBlock is the number of ports of a block. A process takes whole blocks, each by the lock of a
// file, so that test processes that run side by side are never given the same port.
const perBlock = 64

var given struct {
	sync.Mutex
	next, end int        // the ports of the current block that nobody was given
	block     int        // the first block that was not tried
	locks     []*os.File // of the blocks; the kernel releases them with the process
}

// Free is an address, host:port, at which no socket is, and that no other call has returned, in this process or in
// another that runs.
func Free(network string) (string, error) {
	given.Lock()
	defer given.Unlock()
	for {
		if given.next == given.end {
			if err := takeBlock(); err != nil {
				return "", err
			}
		}
		port := given.next
		given.next++
		if taken, err := taken(network, port); err != nil || !taken {
			return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)), err
		}
	}
}

// taken reports whether a socket has a port. It does not bind one to see: a process that is started meanwhile
// would hold that for a moment, and who is given the port could not bind it.
func taken(network string, port int) (bool, error) {
	local := fmt.Sprintf(":%04X", port)
	for _, family := range []string{"", "6"} {
		table, err := os.ReadFile("/proc/net/" + network + family)
		if err != nil && (family == "" || !errors.Is(err, fs.ErrNotExist)) { // a kernel without IPv6 lacks that table
			return false, err
		}
		for line := range strings.Lines(string(table)) {
			if fields := strings.Fields(line); len(fields) > 1 && strings.HasSuffix(fields[1], local) {
				return true, nil
			}
		}
	}
	return false, nil
}

// takeBlock takes the next block that no other process has. given must be locked.
func takeBlock() error {
	for ; first+(given.block+1)*perBlock <= last+1; given.block++ {
		path := filepath.Join(os.TempDir(), fmt.Sprint("sluice-e2e-ports-", given.block))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return err
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = file.Close()
			continue
		}
		given.locks = append(given.locks, file)
		given.next = first + given.block*perBlock
		given.end = given.next + perBlock
		given.block++
		return nil
	}
	return fmt.Errorf("other processes have all blocks of ports on loopback from %d to %d", first, last)
}
