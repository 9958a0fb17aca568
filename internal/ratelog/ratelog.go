// Package ratelog limits how often one kind of message is logged and counts the messages that it
// suppresses.
//
// Every package that logs at the pace of its clients uses it. It writes no message: the caller
// does.
package ratelog

import (
	"sync/atomic"
	"time"
)

// A Limiter lets one message pass per interval. Any number of goroutines may share it; none waits.
// The zero value lets one message per second pass.
type Limiter struct {
	// Interval is the shortest time between two messages. 0: one second.
	Interval time.Duration

	last       atomic.Int64 // when a message passed, in Unix nanoseconds; 0: never
	suppressed atomic.Uint64
}

// Allow reports whether a message may be logged now, and how many were suppressed since the last
// one: this one included, if it may not.
func (l *Limiter) Allow() (suppressed uint64, ok bool) {
	interval := int64(l.Interval)
	if interval == 0 {
		interval = int64(time.Second)
	}
	now, last := time.Now().UnixNano(), l.last.Load()
	// A negative difference means that the wall clock was set back.
	early := now-last >= 0 && now-last < interval
	if early || !l.last.CompareAndSwap(last, now) {
		return l.suppressed.Add(1), false
	}
	return l.suppressed.Swap(0), true
}
