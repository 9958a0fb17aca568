package replica

import (
	"errors"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
)

// Reasons for rejection, as the metric names them.
const (
	reasonVersion = "version" // of the protocol
	reasonDamaged = "damaged"
	reasonName    = "name" // two processes have one, or the subject has another
	reasonFlood   = "flood"
	reasonWindows = "windows" // or the format of the origin's state
	reasonSize    = "size"
)

var reasons = [...]string{reasonVersion, reasonDamaged, reasonName, reasonFlood, reasonWindows, reasonSize}

// rejections counts what is rejected, and logs each reason once a minute.
type rejections struct {
	mu      sync.Mutex
	counts  map[string]uint64
	limiter map[string]*ratelog.Limiter
}

func (j *rejections) init() {
	j.counts, j.limiter = map[string]uint64{}, map[string]*ratelog.Limiter{}
	for _, reason := range reasons {
		j.counts[reason], j.limiter[reason] = 0, &ratelog.Limiter{Interval: time.Minute}
	}
}

// reject counts a rejection.
func (r *Replica) reject(reason, origin, text string) {
	r.count.rejected.mu.Lock()
	r.count.rejected.counts[reason]++
	limiter := r.count.rejected.limiter[reason]
	r.count.rejected.mu.Unlock()
	if suppressed, ok := limiter.Allow(); ok {
		r.log.Warn("replica rejected", "origin", origin, "reason", reason, "detail", text, "suppressed", suppressed)
	}
}

func (r *Replica) rejectError(err error, origin string) {
	reason := reasonDamaged
	if errors.Is(err, errVersion) {
		reason = reasonVersion
	}
	if !validName(origin) {
		origin = "?"
	}
	r.reject(reason, origin, err.Error())
}

// notes limits messages about origins, which others may make up: mostNotes a minute.
type notes struct {
	mu         sync.Mutex
	began      time.Time
	written    int
	suppressed uint64
}

const mostNotes = 32

// note logs a message about an origin.
func (r *Replica) note(message, origin string, args ...any) {
	n := &r.notes
	n.mu.Lock()
	if now := r.now(); now.Sub(n.began) >= time.Minute {
		n.began, n.written = now, 0
	}
	n.written++
	if n.written > mostNotes {
		n.suppressed++
		n.mu.Unlock()
		return
	}
	suppressed := n.suppressed
	n.suppressed = 0
	n.mu.Unlock()
	r.log.Info(message, append(append([]any{"origin", origin}, args...), "suppressed", suppressed)...)
}
