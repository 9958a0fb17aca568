package receiver

import (
	"bytes"
	"log/slog"
	"net"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// rejectionLog logs rejected lines, one per second and reason, and closed connections. All
// goroutines of a receiver share it; none waits.
type rejectionLog struct {
	logger      *slog.Logger
	lines       [metric.NumReasons]ratelog.Limiter
	connections ratelog.Limiter
	explain     func(metric.Reason, *metric.Sample) string // may be nil
	receiver    string
	record      *record.Rejections // may be nil
}

func newRejectionLog(logger *slog.Logger, receiver string) *rejectionLog {
	return &rejectionLog{logger: logger.With("receiver", receiver), receiver: receiver}
}

// rejected logs a rejected line with its fault and the fault's offset in the line. Lines that a
// setting ignores are not logged. The sample, if it was parsed, names the sender.
func (c *rejectionLog) rejected(fault statsd.Fault, offset int, line []byte, s *metric.Sample) {
	reason := fault.Reason
	if reason == metric.Ignored {
		return
	}
	suppressed, ok := c.lines[reason].Allow()
	if weight := ratelog.Weight(suppressed, ok); weight > 0 && c.record != nil {
		c.remember(&fault, offset, line, s, weight)
	}
	if !ok {
		return
	}
	args := []any{"reason", reason.String(), "why", metric.MaskAbout(c.why(&fault, line, s), line, offset), "offset", offset,
		"line", metric.Excerpt(line)}
	if s != nil && s.Sender != nil {
		args = append(args, "from", s.Sender.String())
	}
	c.logger.Warn("line rejected", append(args, "suppressed", suppressed)...)
}

// why says what was wrong with a rejected line.
func (c *rejectionLog) why(fault *statsd.Fault, line []byte, s *metric.Sample) string {
	if c.explain != nil && s != nil {
		if why := c.explain(fault.Reason, s); why != "" {
			return why
		}
	}
	return fault.Explain(line)
}

// remember records a rejected line, which stands for weight lines.
func (c *rejectionLog) remember(fault *statsd.Fault, offset int, line []byte, s *metric.Sample, weight uint64) {
	sample := record.Sample{Receiver: c.receiver, Reason: fault.Reason, Line: line, At: offset,
		Why: func() string { return c.why(fault, line, s) }}
	sample.Metric, _, _ = bytes.Cut(line, []byte{':'})
	if s != nil {
		sample.Sender = s.Sender
	}
	c.record.Add(&sample, weight)
}

func (c *rejectionLog) closed(peer net.Addr, why error) {
	if suppressed, ok := c.connections.Allow(); ok {
		c.logger.Warn("connection closed", "peer", peer.String(), "error", why, "suppressed", suppressed)
	}
}
