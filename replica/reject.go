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

// sameState and otherState are the texts for two processes of one name.
const (
	sameState  = "two processes have this name and a copy of one data folder; the one that started later counts"
	otherState = "two processes have this name, each with data of its own; both count"
)

// namesake notices another process with the name of this one.
type namesake struct {
	mu     sync.Mutex
	older  olderProcess
	heard  time.Time // zero: never
	detail string    // for the state of readiness
}

// hearSame takes a heartbeat of a process with the name and the epoch of this one, which a copied
// data folder makes.
func (o *namesake) hearSame(r *Replica, h *header, piece []byte) {
	m, err := readBeat(piece)
	if err != nil || h.incarnation == r.me.incarnation {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.older.again(h.incarnation, m.number) || h.incarnation < r.me.incarnation && r.now().Sub(r.started) < olderAfter {
		return // late messages of the former process
	}
	detail := "another process has this name and data"
	if h.incarnation > r.me.incarnation {
		detail = "another process with this name and data started later and counts instead" // others follow it
	}
	o.noteLocked(r, detail, sameState)
}

// hearOther takes the news of a heartbeat of another epoch of this name, newer than one before. Soon
// after the start it may be a late one of the process before this one, which lost its disk.
func (o *namesake) hearOther(r *Replica) {
	if r.now().Sub(r.started) < olderAfter {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteLocked(r, "another process has this name and data of its own, and both count", otherState)
}

func (o *namesake) noteLocked(r *Replica, detail, text string) {
	o.heard, o.detail = r.now(), detail
	r.reject(reasonName, r.me.name, text)
}

// seen is the text for the state of readiness, or empty.
func (o *namesake) seen(now time.Time) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.heard.IsZero() || now.Sub(o.heard) > runsAfter {
		return ""
	}
	return o.detail
}
