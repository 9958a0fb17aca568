package receiver

import (
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
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
}

// sparse lets one message a second pass, and counts the others.
type sparse struct {
	last       atomic.Int64 // when one passed, since the start; 0: never
	suppressed atomic.Uint64
}

func newComplaints(logger *slog.Logger, receiver string) *complaints {
	return &complaints{logger: logger.With("receiver", receiver), start: time.Now()}
}

// refused logs a line that was refused for a reason. What a setting ignores is no news.
func (c *complaints) refused(reason metric.Reason, offset int, line []byte) {
	if reason == metric.Ignored || !c.lines[reason].pass(c.start) {
		return
	}
	c.logger.Warn("line refused", "reason", reason.String(), "offset", offset, "line", excerpt(line),
		"suppressed", c.lines[reason].suppressed.Swap(0))
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

func excerpt(line []byte) string {
	if len(line) > excerptLength {
		return strconv.Quote(string(line[:excerptLength])) + "..."
	}
	return strconv.Quote(string(line))
}
