package operations

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-metrics/sluice/connlimit"
)

// Both bounds are far above what probes and scrapers need.
const (
	maxConnections     = 512
	maxConnectionsEach = 64
)

// crowd is a listener that never keeps a probe waiting. When all connections, or those of one address, reach their
// bound, one is closed for the new one: the one that has been longest without a request or, if all have one, the one
// whose request is the oldest. An answer takes a moment; a client that sends half a request or does not read takes longer.
type crowd struct {
	net.Listener
	log     *slog.Logger
	closed  prometheus.Counter
	limiter *connlimit.Limiter

	// Only the goroutine that accepts uses these.
	saidAt     time.Time
	suppressed int
}

func newCrowd(listener net.Listener, log *slog.Logger) *crowd {
	return &crowd{
		Listener: listener, log: log,
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_operations_connections_closed_total",
			Help: "Connections to the operations port that were closed for a new one, for there were as many as may be, in all or from one address.",
		}),
		limiter: connlimit.New(connlimit.Limits{Max: maxConnections, MaxEach: maxConnectionsEach}),
	}
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	member, yielded, err := c.limiter.Enter(conn)
	if err != nil { // none: every connection of this port yields
		return nil, err
	}
	if yielded != nil {
		c.closed.Inc()
		_ = yielded.Close()
		c.say(yielded, member)
	}
	return member, nil
}

// say lets one message a second pass and counts the others: they come at the clients' pace.
func (c *crowd) say(yielded, entered *connlimit.Member) {
	now := time.Now()
	if now.Sub(c.saidAt) < time.Second {
		c.suppressed++
		return
	}
	all, fromAddress := yielded.Open()
	c.log.Warn("operations: a connection was closed for a new one because the limit of connections was reached",
		"peer", yielded.RemoteAddr().String(), "new_peer", entered.RemoteAddr().String(), "open", all, "limit", maxConnections,
		"open_from_address", fromAddress, "limit_from_address", maxConnectionsEach, "suppressed", c.suppressed)
	c.saidAt, c.suppressed = now, 0
}

// changed is the server's ConnState.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	member := conn.(*connlimit.Member)
	switch state {
	case http.StateActive:
		member.Busy()
	case http.StateClosed:
		member.Leave()
	default:
		member.Idle()
	}
}
