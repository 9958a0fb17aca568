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
	// maxRepetitions bounds the messages that are remembered: their texts are constants of the libraries.
	maxRepetitions = 256
)

// pass reports whether a record may be logged, and tells it how many like it were not.
func (l *repetitions) pass(r *slog.Record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.said[r.Message]
	if one == nil {
		if l.said == nil || len(l.said) == maxRepetitions {
			l.said = map[string]*repetition{}
		}
		l.said[r.Message] = &repetition{at: r.Time}
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
