package replica

import (
	"sync"
	"time"
)

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
