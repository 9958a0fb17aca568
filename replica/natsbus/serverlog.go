package natsbus

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
)

// logInterval is the shortest time between two log lines of one kind.
const logInterval = 30 * time.Second

// maxKinds bounds the kinds of lines that are limited apart.
const maxKinds = 64

// serverLog writes the log of the embedded NATS server. What NATS calls a notice, such as a
// connection that begins or ends, is of level debug: package replica logs replicas that come and
// go.
type serverLog struct {
	log     *slog.Logger
	started atomic.Bool // before, warnings are about options that this package chose
	fatal   atomic.Pointer[error]

	mu    sync.Mutex
	kinds map[string]*ratelog.Limiter
}

func newServerLog(log *slog.Logger) *serverLog {
	return &serverLog{log: log, kinds: map[string]*ratelog.Limiter{}}
}

// Noticef implements server.Logger.
func (l *serverLog) Noticef(format string, v ...any) { l.Debugf(format, v...) }

// Debugf implements server.Logger.
func (l *serverLog) Debugf(format string, v ...any) {
	l.log.Debug("connections between replicas", "nats", fmt.Sprintf(format, v...))
}

// Tracef implements server.Logger. Tracing is off.
func (l *serverLog) Tracef(string, ...any) {}

// Warnf implements server.Logger.
func (l *serverLog) Warnf(format string, v ...any) {
	if l.started.Load() {
		l.warn(fmt.Sprintf(format, v...))
	}
}

// Errorf implements server.Logger.
func (l *serverLog) Errorf(format string, v ...any) { l.warn(fmt.Sprintf(format, v...)) }

// Fatalf implements server.Logger. It does not end the process, and expects the failure of noPort.
func (l *serverLog) Fatalf(format string, v ...any) {
	fault := fmt.Errorf(format, v...)
	for _, arg := range v {
		if cause, ok := arg.(error); ok {
			fault = cause
		}
	}
	if !isNoPort(fault) {
		l.fatal.CompareAndSwap(nil, &fault)
	}
}

func (l *serverLog) warn(text string) {
	if suppressed, ok := l.limiter(text).Allow(); ok {
		l.log.Warn("connections between replicas", "nats", text, "suppressed", suppressed)
	}
}

// limiter is that of all lines that differ in digits only, as in addresses, ports and numbers of
// attempts.
func (l *serverLog) limiter(text string) *ratelog.Limiter {
	kind := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.kinds[kind]; !known && len(l.kinds) >= maxKinds {
		kind = "" // a kind of its own, for all others
	}
	if l.kinds[kind] == nil {
		l.kinds[kind] = &ratelog.Limiter{Interval: logInterval}
	}
	return l.kinds[kind]
}
