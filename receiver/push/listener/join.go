package listener

import (
	"errors"
	"net"
	"sync"
)

// Join makes one listener of two. Its address is the first one's.
func Join(first, second net.Listener) net.Listener {
	j := &joined{Listener: first, second: second, accepted: make(chan accepted), closed: make(chan struct{})}
	for _, ln := range []net.Listener{first, second} {
		j.accepting.Go(func() { j.accept(ln) })
	}
	return j
}

type joined struct {
	net.Listener
	second    net.Listener
	accepted  chan accepted
	accepting sync.WaitGroup
	closed    chan struct{}
	closeOnce sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// accept hands connections on until the listener is closed. An error, too, waits to be taken, so that the
// caller's pause after one holds.
func (j *joined) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		select {
		case j.accepted <- accepted{conn, err}:
			if errors.Is(err, net.ErrClosed) {
				return
			}
		case <-j.closed:
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Accept implements net.Listener.
func (j *joined) Accept() (net.Conn, error) {
	select {
	case a := <-j.accepted:
		return a.conn, a.err
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (j *joined) Close() error {
	var err error
	j.closeOnce.Do(func() {
		close(j.closed)
		err = errors.Join(j.Listener.Close(), j.second.Close())
		j.accepting.Wait()
	})
	return err
}
