package receiver

import (
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

const (
	complaintInterval = time.Second
	excerptLength     = 120
)

// complaints logs what a receiver refused: lines, one a second and reason, and connections. All goroutines
// of the receiver share it; it waits for nobody.
type complaints struct {
	logger      *slog.Logger
	start       time.Time
	lines       [metric.NumReasons]sparse
	connections sparse
	explain     func(*metric.Sample) string // why one was refused for its sender; nil: nobody knows
}

// sparse lets one message a second pass, and counts the others.
type sparse struct {
	last       atomic.Int64 // when one passed, since the start; 0: never
	suppressed atomic.Uint64
}

func newComplaints(logger *slog.Logger, receiver string) *complaints {
	return &complaints{logger: logger.With("receiver", receiver), start: time.Now()}
}

// refused logs a line with the fault that it was refused for, and how far into it that is. What a setting
// ignores is no news. The sample is the line's, where it was read; of whom it came is in it whatever
// was refused, unless nobody asks for senders.
func (c *complaints) refused(fault statsd.Fault, offset int, line []byte, s *metric.Sample) {
	reason := fault.Reason
	if reason == metric.Ignored || !c.lines[reason].pass(c.start) {
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
	c.logger.Warn("line refused", append(args, "suppressed", c.lines[reason].suppressed.Swap(0))...)
}

// closed logs a connection that was closed on the peer.
func (c *complaints) closed(peer net.Addr, why error) {
	if c.connections.pass(c.start) {
		c.logger.Warn("connection closed", "peer", peer.String(), "error", why,
			"suppressed", c.connections.suppressed.Swap(0))
	}
}

func (s *sparse) pass(start time.Time) bool {
	now, last := int64(time.Since(start))+1, s.last.Load()
	if last != 0 && now-last < int64(complaintInterval) || !s.last.CompareAndSwap(last, now) {
		s.suppressed.Add(1)
		return false
	}
	return true
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
