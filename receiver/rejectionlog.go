package receiver

import (
	"log/slog"
	"net"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/ratelog"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// complaints logs what a receiver refused: lines, one a second and reason, and connections. All goroutines
// of the receiver share it; it waits for nobody.
type rejectionLog struct {
	logger      *slog.Logger
	lines       [metric.NumReasons]ratelog.Limiter
	connections ratelog.Limiter
	explain     func(*metric.Sample) string // why one was refused for its sender; nil: nobody knows
}

func newRejectionLog(logger *slog.Logger, receiver string) *rejectionLog {
	return &rejectionLog{logger: logger.With("receiver", receiver)}
}

// refused logs a line with the fault that it was refused for, and how far into it that is. What a setting
// ignores is no news. The sample is the line's, where it was read; of whom it came is in it whatever
// was refused, unless nobody asks for senders.
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
	c.logger.Warn("line refused", append(args, "suppressed", suppressed)...)
}

// closed logs a connection that was closed on the peer.
func (c *rejectionLog) closed(peer net.Addr, why error) {
	if suppressed, ok := c.connections.Allow(); ok {
		c.logger.Warn("connection closed", "peer", peer.String(), "error", why, "suppressed", suppressed)
	}
}
