// Package crowd lets tests crowd a listener with strangers: clients of 16 addresses that open more
// connections than the listener admits, and dial again when one is closed; or with clients that ask for pages and don't
// read them.
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
	// pause is the time before a stranger dials again.
	pause = 100 * time.Millisecond
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

// Run runs a server until stop is called.
func Run(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// KeepsNoneOut crowds an address with more than max connections, of which each says something
// first. It starts the listener, stops it and starts it again; then half of the crowd are restless.
// Each time it requires that ask, called for a client of another address, succeeds at 99 of 100 dials.
func KeepsNoneOut(t *testing.T, address string, max int, says string, start func() (stop func()),
	ask func(net.Conn) error) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer end()
	var opened atomic.Int64
	var again, never atomic.Bool
	for run := range 2 {
		stop := start()
		again.Store(run > 0)
		if run == 0 {
			for i := range addresses * (max/addresses + max/addresses/16 + 1) {
				from := net.IPv4(127, 1, 0, byte(1+i%addresses))
				restless := &never
				if i/addresses%2 == 0 {
					restless = &again
				}
				crowd.Go(func() { stranger(ctx, address, from, says, restless, &opened) })
			}
		}
		opened.Store(0)
		for deadline := time.Now().Add(wait); opened.Load() < int64(max); time.Sleep(time.Millisecond) {
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

// stranger keeps a connection open, and dials again when the listener closes it. If it is restless, it
// closes the connection itself after a pause.
func stranger(ctx context.Context, address string, from net.IP, says string, restless *atomic.Bool,
	opened *atomic.Int64) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: time.Second}
	for ctx.Err() == nil {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil { // the listener is not open
			time.Sleep(10 * pause)
			continue
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // no TIME_WAIT: ports would run out
		_, _ = io.WriteString(conn, says)
		opened.Add(1)
		if restless.Load() {
			_ = conn.SetReadDeadline(time.Now().Add(pause))
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		_, _ = io.Copy(io.Discard, conn)
		stop()
		_ = conn.Close()
		time.Sleep(pause)
	}
}
