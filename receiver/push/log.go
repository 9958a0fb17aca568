package push

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// libraryLog takes what fasthttp has to say. Its messages hold what clients sent, so they are quoted, and
// they come at the clients' pace, so one a second is written and the others are counted.
type libraryLog struct {
	log *slog.Logger

	mu         sync.Mutex // guards what follows
	last       time.Time
	suppressed int
}

const maxLogged = 512

// Printf implements fasthttp.Logger.
func (l *libraryLog) Printf(format string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Sub(l.last) < time.Second {
		l.suppressed++
		l.mu.Unlock()
		return
	}
	suppressed := l.suppressed
	l.last, l.suppressed = now, 0
	l.mu.Unlock()
	message := fmt.Sprintf(format, args...)
	if len(message) > maxLogged {
		message = message[:maxLogged]
	}
	l.log.Warn("push: connection failed", "error", fmt.Sprintf("%q", message), "suppressed", suppressed)
}
