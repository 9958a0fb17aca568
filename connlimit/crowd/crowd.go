// Package crowd lets tests crowd a listener with strangers: clients of 16 addresses that open more
// connections than the listener admits, and dial again when one is closed.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	addresses = 16
	// dials is how many connections a client opens, one after another. One may fail.
	dials = 100
	// wait bounds everything that a test waits for, on the slowest machine.
	wait = 2 * time.Minute
)

// Address returns a loopback address for one test, so that no other process takes the port while
// the listener restarts.
func Address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 2+rand.IntN(250), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// KeepsNoneOut crowds an address with more than max connections, of which each says something
// first. It starts the listener, which the crowd awaits, stops it and starts it again. Each time it
// requires that ask, called for a client of another address, succeeds at 99 of 100 dials.
func KeepsNoneOut(t *testing.T, address string, max int, says string, start func() (stop func()), ask func(net.Conn) error) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	var crowd sync.WaitGroup
	var opened atomic.Int64
	for i := range addresses {
		crowd.Go(func() {
			strangers(ctx, address, net.IPv4(127, 1, 0, byte(i+1)), max/addresses+max/addresses/4+1, says, &opened)
		})
	}
	defer crowd.Wait()
	defer end()
	for run := range 2 {
		stop := start()
		opened.Store(0)
		for deadline := time.Now().Add(wait); opened.Load() < 2*int64(max); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("start %d: the crowd opened %d connections in %v", run, opened.Load(), wait)
			}
		}
		var faults []error
		for i := 0; i < dials && len(faults) < 2; i++ {
			if err := dial(address, ask); err != nil {
				faults = append(faults, fmt.Errorf("dial %d: %w", i, err))
			}
		}
		stop()
		if len(faults) > 1 {
			t.Fatalf("start %d: %v", run, errors.Join(faults...))
		}
	}
}

func dial(address string, ask func(net.Conn) error) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Timeout: wait}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(wait))
	return ask(conn)
}

// strangers keep so many connections of one address open, and replace the oldest without end.
func strangers(ctx context.Context, address string, from net.IP, open int, says string, opened *atomic.Int64) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: time.Second}
	ring := make([]net.Conn, open)
	for i := 0; ctx.Err() == nil; i = (i + 1) % open {
		if ring[i] != nil {
			_ = ring[i].Close()
		}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil { // the listener is not open, or its backlog is full
			ring[i] = nil
			time.Sleep(10 * time.Millisecond)
			continue
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // no TIME_WAIT: ports would run out
		_, _ = io.WriteString(conn, says)
		ring[i] = conn
		opened.Add(1)
	}
	for _, conn := range ring {
		if conn != nil {
			_ = conn.Close()
		}
	}
}
