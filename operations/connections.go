package operations

import (
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-metrics/sluice/connlimit"
	"github.com/sluice-metrics/sluice/ratelog"
)

// Both limits are far above what probes and scrapers need.
const (
	maxConnections     = 512
	maxConnectionsEach = 64
)

// connections is the port's listener, which never keeps a probe waiting. At the limit of all
// connections, or of one address, a connection is closed for the new one: the one that has been
// idle longest or, if none is idle, the one with the oldest request. Answers take milliseconds, so
// an old request is a client that neither sends nor reads.
type connections struct {
	connlimit.Listener
	log    *slog.Logger
	often  ratelog.Limiter
	closed prometheus.Counter
}

func newConnections(listener net.Listener, log *slog.Logger) *connections {
	c := &connections{
		log: log,
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_operations_connections_closed_total",
			Help: "Connections to the operations port that were closed for a new one because a connection limit was reached, of all or of one address.",
		}),
	}
	c.Listener = connlimit.Listener{
		Listener: listener,
		Limiter:  connlimit.New(connlimit.Limits{Max: maxConnections, MaxEach: maxConnectionsEach}),
		Closed:   c.yielded,
	}
	return c
}

// yielded counts and logs a connection that was closed for another. Without Limits.Reject or
// Limits.Keep, every connection yields, so entered is never nil.
func (c *connections) yielded(closed net.Conn, entered *connlimit.Member) {
	c.closed.Inc()
	suppressed, ok := c.often.Allow()
	if !ok {
		return
	}
	all, fromAddress := closed.(*connlimit.Member).Open()
	c.log.Warn("operations: connection limit reached; an open connection was closed for a new one",
		"peer", closed.RemoteAddr().String(), "new_peer", entered.RemoteAddr().String(), "open", all, "limit", maxConnections,
		"open_from_address", fromAddress, "limit_from_address", maxConnectionsEach, "suppressed", suppressed)
}

// stateChanged is the server's ConnState. A closed connection has left already: Member.Close does
// that.
func stateChanged(conn net.Conn, state http.ConnState) {
	member := conn.(*connlimit.Member)
	switch state {
	case http.StateActive:
		member.Busy()
	case http.StateClosed, http.StateHijacked:
	default:
		member.Idle()
	}
}
