package connlimit

import "net"

// A Listener accepts connections within the limits of a Limiter. Accept returns Members.
type Listener struct {
	net.Listener
	Limiter *Limiter
	// Closed is called after a connection was closed because of a limit: either the new one, with a
	// nil entered, or one that yielded to entered.
	Closed func(closed net.Conn, entered *Member)
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		entered, yielded, err := l.Limiter.Enter(conn)
		if err != nil {
			_ = conn.Close()
			l.Closed(conn, nil)
			continue
		}
		if yielded != nil {
			_ = yielded.Close()
			l.Closed(yielded, entered)
		}
		return entered, nil
	}
}
