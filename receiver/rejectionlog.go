package receiver

import (
	"log/slog"
	"net"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/ratelog"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// rejectionLog logs rejected lines, one per second and reason, and closed connections. All
// goroutines of a receiver share it; none waits.
type rejectionLog struct {
	logger      *slog.Logger
	lines       [metric.NumReasons]ratelog.Limiter
	connections ratelog.Limiter
	explain     func(*metric.Sample) string // why a sample was rejected for its sender; may be nil
}

func newRejectionLog(logger *slog.Logger, receiver string) *rejectionLog {
	return &rejectionLog{logger: logger.With("receiver", receiver)}
}

// rejected logs a rejected line with its fault and the fault's offset in the line. Lines that a
// setting ignores are not logged. The sample, if it was parsed, names the sender.
func (c *rejectionLog) rejected(fault statsd.Fault, offset int, line []byte, s *metric.Sample) {
	reason := fault.Reason
	if reason == metric.Ignored {
		return
	}
	suppressed, ok := c.lines[reason].Allow()
	if !ok {
		return
	}
	why := fault.Explain(line)
	if reason == metric.Identity && c.explain != nil {
		why = c.explain(s)
	}
	args := []any{"reason", reason.String(), "why", why, "offset", offset, "line", metric.Excerpt(line)}
	if s != nil && s.Sender != nil {
		args = append(args, "from", s.Sender.String())
	}
	c.logger.Warn("line rejected", append(args, "suppressed", suppressed)...)
}

func (c *rejectionLog) closed(peer net.Addr, why error) {
	if suppressed, ok := c.connections.Allow(); ok {
		c.logger.Warn("connection closed", "peer", peer.String(), "error", why, "suppressed", suppressed)
	}
}
