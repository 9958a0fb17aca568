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

// queue is what the kernel says of the sockets bound to one UDP address.
type queue struct {
	sockets int
	waiting int64 // bytes of memory of what was not read yet
	drops   int64 // datagrams
}

// readQueue asks the kernel, not the server: the question costs the server nothing, and its answer is a
// witness against the server's own.
func readQueue(address netip.AddrPort) (queue, error) {
	file, err := os.Open("/proc/net/udp")
	if err != nil {
		return queue{}, err
	}
	defer file.Close()
	q, err := parseQueues(file, address)
	if err == nil && q.sockets == 0 {
		err = fmt.Errorf("no socket is bound to %s", address)
	}
	if err != nil {
		return queue{}, fmt.Errorf("/proc/net/udp: %w", err)
	}
	return q, nil
}

// parseQueues adds up the lines of an address, which several sockets may share.
func parseQueues(text io.Reader, address netip.AddrPort) (queue, error) {
	b := address.Addr().As4()
	want := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(b[:]), address.Port())
	var q queue
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 13 || fields[1] != want {
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
	// quietPatience is how long a queue may take to empty: full, it holds some 100,000 lines.
	quietPatience = 30 * time.Second
)

// awaitEmpty waits until everything was read off the address.
func awaitEmpty(ctx context.Context, address netip.AddrPort) (queue, error) {
	for deadline := time.Now().Add(quietPatience); ; {
		q, err := readQueue(address)
		if err != nil || q.waiting == 0 {
			return q, err
		}
		if time.Now().After(deadline) {
			return q, fmt.Errorf("%d bytes still wait at %s after %s: the server does not read", q.waiting, address, quietPatience)
		}
		if err := rest(ctx, quietPoll); err != nil {
			return q, err
		}
	}
}
