package connlimit

import "net"

// A Listener accepts connections within the limits of a Limiter. Accept returns Members.
type Listener struct {
	net.Listener
	*Limiter
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		entered, err := l.Enter(conn)
		if err == nil {
			return entered, nil
		}
		_ = conn.Close()
	}
}
