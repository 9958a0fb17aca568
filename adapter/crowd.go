package adapter

import (
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// crowd is a listener that lets no address open more than its share of connections and closes at once what is beyond: one
// pod that holds all connections open would keep the API server out.
type crowd struct {
	net.Listener
	shares  *shares
	refused prometheus.Counter
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := prefixOf(conn.RemoteAddr().String())
		if c.shares.enter(from) {
			return &member{Conn: conn, leave: sync.OnceFunc(func() { c.shares.leave(from) })}, nil
		}
		c.refused.Inc()
		_ = conn.Close()
	}
}

// member is a connection that counts until it is closed.
type member struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (m *member) Close() error {
	err := m.Conn.Close()
	m.leave()
	return err
}
