package loadtest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// queue is the kernel's view of the sockets that are bound to one UDP address.
type queue struct {
	sockets int
	waiting int64 // bytes of memory of unread datagrams
	drops   int64 // datagrams
}

// readQueue reads the kernel's counts, not the server's: the read costs the server nothing, and
// confirms the server's own count.
func readQueue(address netip.AddrPort) (all queue, err error) {
	for _, path := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		q, err := readQueues(path, address)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the kernel may have no IPv6
			return queue{}, err
		}
		all.sockets += q.sockets
		all.waiting += q.waiting
		all.drops += q.drops
	}
	if all.sockets == 0 {
		return queue{}, fmt.Errorf("%w %s", errUnbound, address)
	}
	return all, nil
}

var errUnbound = errors.New("no socket is bound to")

func readQueues(path string, address netip.AddrPort) (queue, error) {
	file, err := os.Open(path)
	if err != nil {
		return queue{}, err
	}
	defer file.Close()
	q, err := parseQueues(file, address)
	if err != nil {
		return queue{}, fmt.Errorf("%s: %w", path, err)
	}
	return q, nil
}

// parseQueues adds up the sockets of an address, including sockets bound to all addresses.
func parseQueues(text io.Reader, address netip.AddrPort) (queue, error) {
	b := address.Addr().As4()
	port := fmt.Sprintf(":%04X", address.Port())
	own := fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:])) + port
	var q queue
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 13 || fields[1] != own && strings.TrimLeft(fields[1], "0") != port {
			continue
		}
		_, waiting, _ := strings.Cut(fields[4], ":")
		bytes, err := strconv.ParseInt(waiting, 16, 64)
		drops, dropsErr := strconv.ParseInt(fields[12], 10, 64)
		if err := errors.Join(err, dropsErr); err != nil {
			return queue{}, err
		}
		q.sockets++
		q.waiting += bytes
		q.drops += drops
	}
	return q, lines.Err()
}

const (
	quietPoll = time.Millisecond
	// quietTimeout bounds the time until a queue is empty. A full queue holds some 100,000 lines.
	quietTimeout = 30 * time.Second
)

// awaitEmpty waits until the queues of the address's sockets are empty.
func awaitEmpty(ctx context.Context, address netip.AddrPort) (queue, error) {
	for deadline := time.Now().Add(quietTimeout); ; {
		q, err := readQueue(address)
		if err != nil || q.waiting == 0 {
			return q, err
		}
		if time.Now().After(deadline) {
			return q, fmt.Errorf("%d bytes still wait at %s after %s: the server does not read", q.waiting,
				address, quietTimeout)
		}
		if err := rest(ctx, quietPoll); err != nil {
			return q, err
		}
	}
}
