package adapter

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// The Kubernetes libraries log through klog, a global that must not be replaced while somebody
// logs. So it is set once, to a handler that forwards to the logger of the last Server.
var (
	klogOnce   sync.Once
	klogTarget atomic.Pointer[slog.Handler]
	klogLimit  repetitions
)

func routeKlog(logger *slog.Logger) {
	handler := logger.Handler()
	klogTarget.Store(&handler)
	klogOnce.Do(func() { klog.SetSlogLogger(slog.New(klogHandler{})) })
}

// klogHandler lowers informational records to debug: they are about the libraries' internals.
type klogHandler struct {
	// derive replays WithAttrs and WithGroup on the current target; nil: none.
	derive func(slog.Handler) slog.Handler
}

func (h klogHandler) target() slog.Handler {
	target := *klogTarget.Load()
	if h.derive != nil {
		target = h.derive(target)
	}
	return target
}

// Enabled implements slog.Handler.
func (h klogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return (*klogTarget.Load()).Enabled(ctx, lowered(level))
}

// stoppedEarly is client-go's error for a watch that is stopped before its first list
// (WaitForNamedCacheSync in tools/cache). A stop is not an error.
const stoppedEarly = "Unable to sync caches"

// Handle implements slog.Handler.
func (h klogHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lowered(r.Level)
	if r.Message == stoppedEarly {
		if r.Level = slog.LevelDebug; !h.target().Enabled(ctx, r.Level) {
			return nil
		}
	}
	if r.Level >= slog.LevelWarn && !klogLimit.pass(&r) {
		return nil
	}
	return h.target().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h klogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.then(func(t slog.Handler) slog.Handler { return t.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h klogHandler) WithGroup(name string) slog.Handler {
	return h.then(func(t slog.Handler) slog.Handler { return t.WithGroup(name) })
}

func (h klogHandler) then(step func(slog.Handler) slog.Handler) slog.Handler {
	before := h.derive
	if before == nil {
		return klogHandler{derive: step}
	}
	return klogHandler{derive: func(t slog.Handler) slog.Handler { return step(before(t)) }}
}

func lowered(level slog.Level) slog.Level {
	if level >= slog.LevelInfo && level < slog.LevelWarn {
		return slog.LevelDebug
	}
	return level
}

// repetitions rate-limits each message of the Kubernetes libraries separately. During an outage of
// the API server they log the same errors for every request, and other messages would drown.
type repetitions struct {
	mu   sync.Mutex
	said map[string]*repetition
}

type repetition struct {
	at         time.Time
	suppressed int
}

const (
	repeatAfter = 30 * time.Second
	// maxRepetitions bounds the remembered messages.
	maxRepetitions = 256
)

// subject is the message of a record with its error.
func subject(r *slog.Record) string {
	said := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			said += ": " + a.Value.String()
		}
		return true
	})
	return said
}

// pass reports whether a record may be logged, and adds the number of suppressed ones to it.
func (l *repetitions) pass(r *slog.Record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := subject(r)
	one := l.said[key]
	if one == nil {
		if l.said == nil || len(l.said) == maxRepetitions {
			l.said = map[string]*repetition{}
		}
		l.said[key] = &repetition{at: r.Time}
		return true
	}
	if r.Time.Sub(one.at) < repeatAfter {
		one.suppressed++
		return false
	}
	if one.suppressed > 0 {
		r.AddAttrs(slog.Int("suppressed", one.suppressed))
	}
	*one = repetition{at: r.Time}
	return true
}
