package connlimit

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
	"github.com/sluice-metrics/sluice/internal/ratelog"
)

// counts are the metrics and the log of one listener.
type counts struct {
	refused, yielded atomic.Uint64
	log              *slog.Logger
	often            ratelog.Limiter

	openDesc, refusedDesc, yieldedDesc *prometheus.Desc
}

func newCounts(listener string, log *slog.Logger) counts {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, nil, prometheus.Labels{"listener": listener})
	}
	return counts{
		log: log.With("listener", listener), often: ratelog.Limiter{Interval: time.Minute},
		openDesc: desc("sluice_connections", "Open connections, by listener."),
		refusedDesc: desc("sluice_connections_refused_total",
			"Connections closed at once: the connection limit of the listener or of the client's address was reached, and all open connections were in use."),
		yieldedDesc: desc("sluice_connections_yielded_total",
			"Connections closed for a new one: the connection limit of the listener or of the client's address was reached, and the connection was not in use, or its address had more than its share in use."),
	}
}

// note counts a connection that yielded or, if none did, the new one that is refused. It logs once
// per minute.
func (l *Limiter) note(arrived net.Conn, yielded *Member, err error) {
	message, args := "connection limit reached; a connection was refused", []any{"error", err}
	if yielded != nil {
		l.yielded.Add(1)
		message, args = "connection limit reached; the connection that was idle longest was closed for a new one",
			[]any{"peer", yielded.RemoteAddr().String()}
		if use(yielded.use.Load()) == busy {
			message = "connection limit reached; a connection in use, of the address that has most, was closed for a new one"
		}
	} else {
		l.refused.Add(1)
	}
	suppressed, ok := l.often.Allow()
	if !ok {
		return
	}
	from := Prefix(arrived.RemoteAddr().String())
	if yielded != nil {
		from = yielded.From
	}
	all, each := l.slots.Taken(from)
	l.log.Warn(message, append(args, "new_peer", arrived.RemoteAddr().String(), "open", all, "limit", l.limits.Max,
		"open_from_address", each, "limit_from_address", l.limits.MaxEach, "suppressed", suppressed)...)
}

// Describe implements prometheus.Collector.
func (l *Limiter) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.openDesc
	ch <- l.refusedDesc
	ch <- l.yieldedDesc
}

// Collect implements prometheus.Collector.
func (l *Limiter) Collect(ch chan<- prometheus.Metric) {
	collect.Gauge(ch, l.openDesc, l.Len())
	collect.Counter(ch, l.refusedDesc, l.refused.Load())
	collect.Counter(ch, l.yieldedDesc, l.yielded.Load())
}
