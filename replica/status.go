package replica

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// OriginStatus describes what is known of an origin.
type OriginStatus struct {
	Name   string
	Former bool // an epoch that the origin has left behind
	Left   bool // the process has ended, and said so
	Series int
	Bytes  int64
	Lag    time.Duration // since the newest flush that is applied
	Offset time.Duration // local clock minus the origin's
	// Complete is set while the shadow equals the origin as of its newest heartbeat.
	Complete      bool
	StandingStill bool
	CutOff        bool // it lives, and nothing is heard of it: its last rates stand
	Gaps, Resyncs uint64
	Received      uint64 // bytes
}

// Origins lists all other origins, by name.
func (r *Replica) Origins() []OriginStatus {
	now := r.now()
	all := r.origins.sorted()
	newest := map[string]int64{}
	for _, f := range all {
		if heard, known := newest[f.key.name]; !known || heard < f.heard.Load() {
			newest[f.key.name] = f.heard.Load()
		}
	}
	var out []OriginStatus
	for _, f := range all {
		origin := f.status(now)
		origin.Former = origin.StandingStill && (f.heard.Load() < newest[f.key.name] || f.key.name == r.me.name)
		out = append(out, origin)
	}
	return out
}

func (f *follower) status(now time.Time) OriginStatus {
	s := OriginStatus{Name: f.key.name, Left: f.left.Load()}
	s.Gaps, s.Resyncs, s.Received = f.gaps.Load(), f.resyncs.Load(), f.received.Load()
	if shown := f.r.origins.shows(f); shown != nil {
		s.Series, s.Bytes = shown.Series(), shown.Bytes()
	}
	p := f.progress.Load()
	s.Lag, s.Offset, s.Complete = now.Sub(p.advanced), p.offset, p.complete
	s.StandingStill, s.CutOff = s.Lag >= standsAfter, f.cutOff.Load()
	return s
}

// Hears reports whether another replica is heard, or lives behind a cut link.
func (r *Replica) Hears(name string) bool {
	now := r.now()
	return slices.ContainsFunc(r.origins.sorted(), func(f *follower) bool {
		return f.key.name == name && (f.live(now) || f.cutOff.Load())
	})
}

// Heard lists the other replicas that are heard.
func (r *Replica) Heard() []string {
	names := r.origins.liveNames(r.now())
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == r.me.name })
}

// shows is the shadow that readers see of a follower.
func (o *origins) shows(f *follower) Shadow {
	o.mu.Lock()
	defer o.mu.Unlock()
	return f.shown
}

// firstHeard is when another origin was heard for the first time; zero: never.
func (o *origins) firstHeard() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first
}

// has reports whether a follower has not been forgotten.
func (o *origins) has(f *follower) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[f.key] == f
}

const (
	// firstWithin is the time in which a starting replica hears of another one, if there is any: the
	// bus may still be connecting. restWithin is the time after that in which it hears of all.
	firstWithin = 5 * time.Second
	restWithin  = 3 * beatEvery
	// missedFor is the silence after which a starting replica no longer waits for an origin that it
	// has heard.
	missedFor = 10 * time.Second
	// joinsWithin bounds the wait for their states.
	joinsWithin = 30 * time.Second
)

// Ready is Answers for /readyz. The detail also names origins that stand still.
func (r *Replica) Ready() (bool, string) {
	ready, why := r.Answers()
	if detail := r.detail(r.now()); why == "" {
		why = detail
	} else {
		why += ": " + detail
	}
	return ready, why
}

// Answers reports whether answers are complete: the state of every origin that was heard of has arrived,
// also of those that other replicas relay, or the wait for it is over; and the process has not stood still
// since. If not, it says why.
func (r *Replica) Answers() (bool, string) {
	now := r.now()
	if !r.ready.Load() {
		if !r.hasJoined(now) {
			return false, "this replica does not have the states of the others yet"
		}
		r.ready.Store(true)
	}
	return r.caughtUp(now)
}

func (r *Replica) hasJoined(now time.Time) bool {
	first := r.origins.firstHeard()
	switch up := now.Sub(r.started); {
	case up >= joinsWithin:
		return true
	case first.IsZero():
		return up >= firstWithin
	case now.Sub(first) < restWithin:
		return false
	}
	all := r.origins.sorted()
	for _, f := range all {
		if f.away(now) && f.relaying.Load() {
			return false
		}
		if now.Sub(first) < firstWithin && r.hearsOfMore(f, all) {
			return false
		}
		if f.live(now) && (!f.joined.Load() || !f.announced.Load()) {
			return false
		}
		// Some lost heartbeats don't mean that it is away: nobody would pass on its state.
		if !f.joined.Load() && f.received.Load() > 0 && !f.left.Load() && f.silence(now) < missedFor {
			return false
		}
	}
	return true
}

// hearsOfMore reports whether another replica hears an origin that this one, which knows these, has not heard
// of yet.
func (r *Replica) hearsOfMore(f *follower, known []*follower) bool {
	hears := f.hears.Load()
	return hears != nil && slices.ContainsFunc(*hears, func(name string) bool {
		return name != r.me.name && !slices.ContainsFunc(known, func(f *follower) bool { return f.key.name == name })
	})
}

// Unwritten names a live replica whose state here is ahead of its disk; empty: there is none. A kill
// would take that part back.
func (r *Replica) Unwritten() string {
	for _, f := range r.origins.live(r.now()) {
		if f.unwritten.Load() {
			return f.key.name
		}
	}
	return ""
}

// Away says which other replicas are not heard, a sentence each. Of those that came back, the former state is
// not meant.
func (r *Replica) Away() (all []string) {
	for _, origin := range r.Origins() {
		switch {
		case origin.CutOff:
			all = append(all, fmt.Sprintf("replica %s has not been heard for %v, though it is alive: the link to it is cut. Its last rates stand, for %v at most",
				origin.Name, origin.Lag.Round(time.Second), livesFor))
		case !origin.Former && (origin.StandingStill || origin.Left):
			all = append(all, fmt.Sprintf("replica %s has not been heard for %v: answers have its last state, and nothing that it received since",
				origin.Name, origin.Lag.Round(time.Second)))
		}
	}
	return all
}

// Known is the number of replicas that this one knows, itself included.
func (r *Replica) Known() int { return 1 + r.others(byName(r.Origins())) }

// maxDetails bounds the origins that a detail describes.
const maxDetails = 8

// others counts the origins, joined by name, besides the own former epoch.
func (r *Replica) others(joined []OriginStatus) (n int) {
	for _, origin := range joined {
		if origin.Name != r.me.name {
			n++
		}
	}
	return n
}

func (r *Replica) detail(now time.Time) string {
	var texts []string
	all := r.Origins()
	switch r.others(byName(all)) {
	case 0:
		texts = append(texts, "no other origin")
	case 1:
		texts = append(texts, "1 origin")
	default:
		texts = append(texts, fmt.Sprintf("%d origins", r.others(byName(all))))
	}
	for i, origin := range all {
		if len(texts) > maxDetails {
			texts = append(texts, fmt.Sprintf("and %d more states", len(all)-i))
			break
		}
		switch {
		case origin.Former:
			texts = append(texts, fmt.Sprintf("%s came back without its former state, which still counts", origin.Name))
		case origin.Left:
			texts = append(texts, fmt.Sprintf("%s ended %v ago", origin.Name, origin.Lag.Round(time.Second)))
		case origin.CutOff:
			texts = append(texts, fmt.Sprintf("%s is cut off for %v and lives", origin.Name, origin.Lag.Round(time.Second)))
		case origin.StandingStill:
			texts = append(texts, fmt.Sprintf("%s stands still for %v", origin.Name, origin.Lag.Round(time.Second)))
		case !origin.Complete:
			texts = append(texts, fmt.Sprintf("%s is being read", origin.Name))
		}
	}
	if seen := r.namesake.seen(now); seen != "" {
		texts = append(texts, seen)
	}
	return strings.Join(texts, ", ")
}
