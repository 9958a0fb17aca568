package aggregate

import (
	"maps"
	"sync"
	"time"
)

// warnings limits a warning to one an hour for each metric.
type warnings struct {
	mu     sync.Mutex
	warned map[familyKey]time.Time
}

const (
	warnEvery  = time.Hour
	warnedMost = 1024
)

// due reports whether a metric may be warned of again.
func (s *warnings) due(key familyKey, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, before := s.warned[key]
	if before && now.Sub(at) < warnEvery {
		return false
	}
	if len(s.warned) >= warnedMost {
		maps.DeleteFunc(s.warned, func(_ familyKey, at time.Time) bool { return now.Sub(at) >= warnEvery })
	}
	if len(s.warned) >= warnedMost {
		return false
	}
	if s.warned == nil {
		s.warned = map[familyKey]time.Time{}
	}
	s.warned[key] = now
	return true
}
