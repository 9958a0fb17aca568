package autoscaler

import "time"

const (
	// grace is the time for which a fault may last before anybody is told: pods start, and the
	// autoscaler's status is up to 15 s old.
	grace = 30 * time.Second
	// repeat is the shortest time between two notices of the beginning of a fault.
	repeat = 5 * time.Minute
)

// state is a metric of an autoscaler over time.
type state struct {
	answer
	lack spell // it is missing
	hold spell // pods hold the autoscaler back
}

func (s *state) set(now answer, at time.Time) {
	s.answer = now
	s.lack.set(now.missing, at)
	s.hold.set(now.held.Why != "", at)
}

// due are the faults of which a notice is due. It stays due until told. A fault ends with a value.
func (s *state) due(now time.Time) (all []fault) {
	if s.lack.begins(now) || s.lack.ended() && s.asked {
		all = append(all, missing)
	}
	if s.hold.begins(now) || s.hold.ended() && s.asked && !s.missing {
		all = append(all, heldBack)
	}
	return all
}

// spell is a fault of a metric over time.
type spell struct {
	since  time.Time // since when it lasts; zero: it doesn't
	began  time.Time // since when it lasted, when that was told
	told   bool      // the last notice said that it lasts
	toldAt time.Time // when a notice last said that it lasts
}

func (s *spell) set(lasts bool, at time.Time) {
	switch {
	case !lasts:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = at
	}
}

func (s *spell) lasts() bool { return !s.since.IsZero() }

// begins reports whether a notice is due that the fault lasts.
func (s *spell) begins(now time.Time) bool {
	return s.lasts() && !s.told && now.Sub(s.since) >= grace && (s.toldAt.IsZero() || now.Sub(s.toldAt) >= repeat)
}

// ended reports whether the fault was told and doesn't last any more.
func (s *spell) ended() bool { return s.told && !s.lasts() }

// tell records that a notice was given.
func (s *spell) tell(now time.Time) {
	if s.told = s.lasts(); s.told {
		s.toldAt, s.began = now, s.since
	}
}
