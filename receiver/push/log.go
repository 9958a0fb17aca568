package push

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// sparse lets one message a second pass and counts the others: they come at the clients' pace.
type sparse struct {
	mu         sync.Mutex // guards what follows
	last       time.Time
	suppressed int
}

// pass reports whether a message may be written now, and how many were not before it.
func (s *sparse) pass() (suppressed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.last) < time.Second {
		s.suppressed++
		return 0, false
	}
	suppressed = s.suppressed
	s.last, s.suppressed = now, 0
	return suppressed, true
}

// libraryLog takes what fasthttp has to say. Its messages are handed on as they are: quoting is the log's
// business.
type libraryLog struct {
	log *slog.Logger
	sparse
}

const maxLogged = 512

// Printf implements fasthttp.Logger.
func (l *libraryLog) Printf(format string, args ...any) {
	suppressed, ok := l.pass()
	if !ok {
		return
	}
	message := fmt.Sprintf(format, args...)
	if len(message) > maxLogged {
		message = message[:maxLogged]
	}
	l.log.Warn("push: connection failed", "error", message, "suppressed", suppressed)
}
