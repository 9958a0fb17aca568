package adapter

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// The Kubernetes libraries log through klog, which is one for the process and must not be switched while
// somebody logs. So it is switched once, to a handler that follows whatever logger a Server was given last.
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

// klogHandler passes records on one level lower where they are informational: what these libraries call
// information is about their own doings.
type klogHandler struct {
	// derive replays WithAttrs and WithGroup on the target of the moment; nil: none.
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

// stoppedEarly is what client-go says, as an error, where it was stopped before it had read what it watches (WaitForNamedCacheSync in
// tools/cache): a stop is none.
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
