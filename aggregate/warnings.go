package aggregate

import (
	"maps"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
)

// warnings limits a warning to one an hour for each metric.
type warnings struct {
	mu     sync.Mutex
	warned map[index.Key]time.Time
}

const (
	warnEvery  = time.Hour
	warnedMost = 1024
)

// due reports whether a metric may be warned of again.
func (s *warnings) due(key index.Key, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, before := s.warned[key]
	if before && now.Sub(at) < warnEvery {
		return false
	}
	if len(s.warned) >= warnedMost {
		maps.DeleteFunc(s.warned, func(_ index.Key, at time.Time) bool { return now.Sub(at) >= warnEvery })
	}
	if len(s.warned) >= warnedMost {
		return false
	}
	if s.warned == nil {
		s.warned = map[index.Key]time.Time{}
	}
	s.warned[key] = now
	return true
}
