package replica

import (
	"slices"
	"time"
)

// A replica that starts, or that lost its disk, cannot ask an origin that is away for its state. The
// replicas that have a shadow of it relay that: they announce the silent origins, and serve the
// blocks of their shadows (docs/adr/0053). Each block has a version, and a replica asks for the
// blocks that are newer at another one. So all of them come to have the newest blocks that any has.

const (
	// relayEvery is the time between two announcements, relayNews the least one if there is news.
	relayEvery = 2 * time.Second
	relayNews  = 500 * time.Millisecond
)

// relay announces silent origins. The stepping goroutine owns it.
type relay struct {
	at     time.Time // of the newest announcement
	away   int       // silent origins then
	buffer []byte
}

// relayStep announces the silent origins, while there are any. Each other replica asks for the first
// announcement itself.
func (r *Replica) relayStep(now time.Time) {
	away := len(r.origins.away(now))
	since := now.Sub(r.relay.at)
	if since < relayEvery && (away == r.relay.away || since < relayNews) {
		return
	}
	r.relay.at, r.relay.away = now, away
	if m := (relayBody{all: r.silentOrigins(now)}); len(m.all) > 0 {
		r.relay.buffer = r.send(r.subjects.of(flowOf, r.me.name, topicRelay), typeRelay, m.append(nil), r.relay.buffer)
	}
}

// silentOrigins describes the silent origins whose state other replicas can have from this one.
func (r *Replica) silentOrigins(now time.Time) (all []silentOrigin) {
	for _, f := range r.origins.away(now) {
		if m, ok := f.relayed(now); ok {
			all = append(all, m)
		}
	}
	return all
}

// away returns the followers of origins that are away.
func (o *origins) away(now time.Time) []*follower {
	return slices.DeleteFunc(o.sorted(), func(f *follower) bool { return !f.away(now) })
}

// away reports whether the origin is silent or has said that it ends, or its process has come back
// with another epoch.
func (f *follower) away(now time.Time) bool { return !f.live(now) || f.succeeded.Load() }

// relayed describes the state of a silent origin. It reports false if others cannot have it.
func (f *follower) relayed(now time.Time) (silentOrigin, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.relaysLocked(now) {
		return silentOrigin{}, false
	}
	return f.silentLocked(now), true
}

// relaysLocked reports whether the shadow can be relayed. Two replicas that miss different blocks
// relay to each other.
func (f *follower) relaysLocked(now time.Time) bool {
	return f.away(now) && f.shadow != nil && f.r.origins.shows(f) == f.shadow && now.Sub(f.advanced) < endsAfter
}

func (f *follower) silentLocked(now time.Time) silentOrigin {
	return silentOrigin{
		key: f.key, incarnation: f.incarnation, beats: f.beats, flush: f.beat.flush, left: f.left.Load(),
		still: max(now.Sub(f.advanced), 0), offset: f.offset.least(), digest: f.versionsDigestLocked(),
		clock: f.shadow.AppendClock(nil),
	}
}

// versionLocked is the version of a block's content in the shadow.
func (f *follower) versionLocked(block int) version {
	if block >= len(f.blocks) {
		return version{}
	}
	b := &f.blocks[block]
	if b.has {
		return version{f.incarnation, b.seq, b.letter}
	}
	return b.former
}

func (f *follower) versionsDigestLocked() (digest uint64) {
	for i := range f.blocks {
		digest += f.versionLocked(i).digest(i)
	}
	return digest
}

// receiveWantRelay enters the question of another replica for a silent origin's state.
func (r *Replica) receiveWantRelay(h *header, piece []byte) {
	m, err := readWantRelay(piece)
	if err != nil {
		r.rejectError(err, h.name)
		return
	}
	if f := r.origins.find(m.key); f != nil {
		r.server.askRelayed(h.name, f, &m)
	}
}

// relayedBlock is a block that a replica asks another one for instead of its origin.
type relayedBlock struct {
	of    *follower
	block int // -1: the versions of all
}

// askRelayed enters a request for the blocks of a silent origin.
func (s *server) askRelayed(from string, f *follower, m *wantRelayBody) {
	blocks := m.blocks
	if m.versions {
		blocks = append(blocks, -1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	requester := s.requesterLocked(from)
	if requester == nil {
		s.r.reject(reasonFlood, from, tooManyAsk)
		return
	}
	for _, b := range blocks {
		wanted := relayedBlock{f, b}
		if int64(b) < f.size.Load() && !slices.Contains(requester.relayed, wanted) && len(requester.relayed) < maxAsked {
			requester.relayed = append(requester.relayed, wanted)
		}
	}
	s.wakeUp()
}

// sendRelayed sends a block of a silent origin, or the versions of all. The follower's lock keeps
// the shadow from changing meanwhile.
func (s *server) sendRelayed(to string, wanted relayedBlock) {
	f := wanted.of
	f.mu.Lock()
	if !f.relaysLocked(s.r.now()) || wanted.block >= len(f.blocks) {
		f.mu.Unlock()
		return
	}
	kind := typeRelayed
	if wanted.block < 0 {
		kind = typeVersions
		s.body = f.appendVersionsLocked(s.body[:0], s.r.now())
	} else {
		s.body = s.appendRelayedLocked(s.body[:0], f, wanted.block)
	}
	f.mu.Unlock()
	s.buffer = s.r.sendPieces(to, kind, s.body, s.buffer, s.awaitRoom)
	s.trim()
}

func (f *follower) appendVersionsLocked(dst []byte, now time.Time) []byte {
	m := versionsBody{silentOrigin: f.silentLocked(now)}
	for i := range f.blocks {
		m.versions = append(m.versions, f.versionLocked(i))
	}
	return m.append(dst)
}

func (s *server) appendRelayedLocked(dst []byte, f *follower, block int) []byte {
	m := relayedBody{key: f.key, block: block, version: f.versionLocked(block)}
	if block < f.shadow.Blocks() {
		s.names = f.shadow.AppendBlockNames(s.names[:0], block)
		s.state = f.shadow.AppendBlockState(s.state[:0], block)
		m.names, m.state = s.names, s.state
	}
	s.clock = f.shadow.AppendClock(s.clock[:0])
	m.clock = s.clock
	return m.append(dst)
}
