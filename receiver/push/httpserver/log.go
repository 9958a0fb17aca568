package httpserver

import (
	"fmt"
	"log/slog"

	"github.com/sluice-metrics/sluice/internal/ratelog"
)

// libraryLog writes fasthttp's messages to our log, unquoted: the log quotes them.
type libraryLog struct {
	log *slog.Logger
	ratelog.Limiter
}

const maxLogged = 512

// Printf implements fasthttp.Logger.
func (l *libraryLog) Printf(format string, args ...any) {
	suppressed, ok := l.Allow()
	if !ok {
		return
	}
	message := fmt.Sprintf(format, args...)
	if len(message) > maxLogged {
		message = message[:maxLogged]
	}
	l.log.Warn("push: connection failed", "error", message, "suppressed", suppressed)
}
