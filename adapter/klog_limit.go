package adapter

import (
	"log/slog"
	"sync"
	"time"
)

// repetitions lets each message of the Kubernetes libraries pass once in a while: while the API server is away they say
// the same for every request, by the dozen, and what matters drowns.
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
	// maxRepetitions bounds the messages that are remembered.
	maxRepetitions = 256
)

// subject is what a record says: the message, and the error beside it.
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

// pass reports whether a record may be logged, and tells it how many like it were not.
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
