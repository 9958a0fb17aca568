// Package ratelog limits how often one kind of message is logged and counts the messages that it
// suppresses. What is recorded of a flood is sampled by the same count.
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

// fully is how many of a second's messages are recorded one by one. Of those that follow, one of as many is recorded.
const fully = 1024

// Weight returns how many messages one stands for in a record; 0: it is not recorded. The arguments are the results of
// Allow: a message that is logged, or the n-th since then. So a flood costs a comparison a message.
func Weight(n uint64, logged bool) uint64 {
	switch {
	case logged:
		return 1
	case n <= fully:
		return 1
	case n%fully == 0:
		return fully
	}
	return 0
}
