package receiver

import (
	"log/slog"
	"net"
	"strings"
	"unicode"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/ratelog"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

const excerptLength = 120

// complaints logs what a receiver refused: lines, one a second and reason, and connections. All goroutines
// of the receiver share it; it waits for nobody.
type complaints struct {
	logger      *slog.Logger
	lines       [metric.NumReasons]ratelog.Limiter
	connections ratelog.Limiter
	explain     func(*metric.Sample) string // why one was refused for its sender; nil: nobody knows
}

func newComplaints(logger *slog.Logger, receiver string) *complaints {
	return &complaints{logger: logger.With("receiver", receiver)}
}

// refused logs a line with the fault that it was refused for, and how far into it that is. What a setting
// ignores is no news. The sample is the line's, where it was read; of whom it came is in it whatever
// was refused, unless nobody asks for senders.
func (c *complaints) refused(fault statsd.Fault, offset int, line []byte, s *metric.Sample) {
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
	args := []any{"reason", reason.String(), "why", why, "offset", offset, "line", excerpt(line)}
	if s != nil && s.Sender != nil {
		args = append(args, "from", sentFrom(s.Sender))
	}
	c.logger.Warn("line refused", append(args, "suppressed", suppressed)...)
}

// closed logs a connection that was closed on the peer.
func (c *complaints) closed(peer net.Addr, why error) {
	if suppressed, ok := c.connections.Allow(); ok {
		c.logger.Warn("connection closed", "peer", peer.String(), "error", why, "suppressed", suppressed)
	}
}

// excerpt is the line's beginning. Quoting is the log's own business; but slog's JSON leaves control characters
// beyond ASCII's first 32 as they are, and a terminal may obey those.
func excerpt(line []byte) string {
	text := string(line[:min(len(line), excerptLength)])
	text = strings.Map(func(r rune) rune {
		if r >= 0x7f && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
	if len(line) > excerptLength {
		text += "..."
	}
	return text
}
