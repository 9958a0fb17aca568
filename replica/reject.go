package replica

import (
	"errors"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/ratelog"
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

// sameState is the text for two processes with one epoch.
const sameState = "two processes have this name and a copy of one data folder; the one that started later counts"

// twinProcess notices another process with the name and the epoch of this one, which a copied data
// folder makes.
type twinProcess struct {
	mu    sync.Mutex
	older olderProcess
	heard time.Time // zero: never
	newer bool      // the other process started later: others follow it
}

func (w *twinProcess) hear(r *Replica, h *header, piece []byte) {
	m, err := readBeat(piece)
	if err != nil || h.incarnation == r.me.incarnation {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.older.again(h.incarnation, m.number) || h.incarnation < r.me.incarnation && r.now().Sub(r.started) < olderAfter {
		return // late messages of the former process
	}
	w.heard, w.newer = r.now(), h.incarnation > r.me.incarnation
	r.reject(reasonName, r.me.name, sameState)
}

// detail is the text for the state of readiness.
func (w *twinProcess) detail(now time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard.IsZero() || now.Sub(w.heard) > runsAfter {
		return ""
	}
	if w.newer {
		return "another process with this name and data started later and counts instead"
	}
	return "another process has this name and data"
}
