package replica

import (
	"bytes"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

// This file is the receiving side of relay.go: announcements; the comparison of versions; blocks.

const (
	// pullPatience is the time without progress after which a replica no longer waits for a relay.
	// The next announcement begins again.
	pullPatience = 3 * time.Second
	// unreadFor is the time for which a state that could not be read is not asked for again.
	unreadFor = time.Minute
)

// pull is the reading of a silent origin's state from another replica.
type pull struct {
	from       string // the replica that relays
	state      silentOrigin
	compared   bool // the versions have come
	length     int  // of the state, in blocks
	missing    map[int]*pulledBlock
	held       []relayedBody // for a visible shadow: they wait for the rest, with the clock
	bytes      int           // of held
	progressed time.Time
	asked      time.Time // for the versions
}

// pulledBlock is a block that is newer at the replica that relays.
type pulledBlock struct {
	asked time.Time
	tries int
}

// announcedLocked passes the announced origins to their followers. The follower is that of the
// replica that announces.
func (f *follower) announcedLocked(p *parcel, body []byte) error {
	m, err := readRelay(body)
	if err != nil {
		return err
	}
	for i := range m.all {
		f.passLocked(p, m.all[i].key, m.all[i].append(nil), m.all[i].still)
	}
	if m.asked {
		f.hears.Store(&m.live)
		f.announced.Store(true)
	}
	return nil
}

// passLocked passes a message about an origin, which has been silent for a time, to the follower of that.
func (f *follower) passLocked(p *parcel, key originKey, body []byte, still time.Duration) {
	if key == f.key || key == (originKey{f.r.me.name, f.r.me.epoch}) {
		return
	}
	to := f.r.origins.find(key)
	if to == nil && p.kind == typeRelay {
		to = f.r.origins.ofRelay(key, still)
	}
	if to == nil {
		return
	}
	h := p.header
	h.piece, h.pieces = 0, 1
	f.r.origins.hand(to, parcel{header: h, piece: body, offset: f.offset.least()})
}

// ofRelay returns a new follower of an origin that is only heard of, and has been silent for a time; nil: there is no
// room, or the origin has been forgotten here, and nobody has heard more of it.
func (o *origins) ofRelay(key originKey, still time.Duration) *follower {
	o.mu.Lock()
	defer o.mu.Unlock()
	if heard, ended := o.ended[key]; o.stopped || ended && o.r.now().Add(-still).Sub(heard) < standsAfter {
		return nil
	}
	if len(o.all) >= maxOrigins {
		o.r.reject(reasonFlood, key.name, tooManyOrigins)
		return nil
	}
	f := newFollower(o.r, key)
	f.relaying.Store(true)
	f.heard.Store(int64(o.r.now().Add(-standsAfter).Sub(o.r.started)))
	f.checked = o.r.now()
	o.addLocked(f)
	return f
}

// handleRelayLocked handles a message of another replica about this follower's origin.
func (f *follower) handleRelayLocked(p *parcel, now time.Time) error {
	switch p.kind {
	case typeRelay:
		d := blob.Decoder{Rest: p.piece}
		if m := readSilent(&d); d.Err == nil {
			f.offerLocked(&m, p.name, now)
		}
		return d.Err
	case typeVersions:
		m, err := readVersions(p.piece)
		if err == nil {
			m.offset += p.offset
			f.compareVersionsLocked(&m, p.name, now)
		}
		return err
	default:
		m, err := readRelayed(p.piece)
		if err == nil {
			f.takeRelayedLocked(&m, p.name, now)
		}
		return err
	}
}

// offerLocked begins to read a state if it differs from the shadow's, or if readers see none: then the replica
// that the shadow came from has ended before all had come, and all that another one has may be here.
func (f *follower) offerLocked(m *silentOrigin, from string, now time.Time) {
	switch {
	case !f.away(now): // the origin itself is heard
		f.relaying.Store(false)
	case f.pull != nil:
	case !f.unread.IsZero() && now.Sub(f.unread) < unreadFor,
		m.digest == f.versionsDigestLocked() && f.shadow != nil && f.r.origins.shows(f) != nil:
		f.relaying.Store(false)
	default:
		f.pull = &pull{from: from, missing: map[int]*pulledBlock{}, progressed: now}
		f.pullLocked(now)
	}
}

// compareVersionsLocked finds the blocks that are newer at the replica that relays.
func (f *follower) compareVersionsLocked(m *versionsBody, from string, now time.Time) {
	p := f.pull
	if p == nil || p.from != from || p.compared {
		return
	}
	p.compared, p.state, p.length, p.progressed = true, m.silentOrigin, len(m.versions), now
	p.state.clock = slices.Clone(m.clock)
	for i, v := range m.versions {
		if v.newer(f.versionLocked(i)) && !f.hasCutLocked(i, v) {
			p.missing[i] = &pulledBlock{}
		}
	}
	if len(p.missing) == 0 && f.shadow != nil && m.incarnation <= f.incarnation {
		f.endPullLocked(now)
		return
	}
	if !f.continueLocked(&p.state, now) {
		f.pull = nil
		f.relaying.Store(false)
		return
	}
	f.growLocked(len(m.versions))
	f.pullLocked(now)
}

// hasCutLocked reports whether a block is of a former incarnation, and the present one no longer has
// it.
func (f *follower) hasCutLocked(block int, v version) bool {
	return block >= len(f.blocks) && v.incarnation < f.incarnation && f.beat.flush > 0
}

// continueLocked makes the shadow go on from a state: the present one, or a new one, if there is none
// or the state is that of a later incarnation which the present one cannot continue.
func (f *follower) continueLocked(m *silentOrigin, now time.Time) bool {
	later := m.incarnation > f.incarnation
	if later {
		f.restartLocked(m.incarnation, now)
	}
	if m.incarnation == f.incarnation { // a former process may have sent more heartbeats
		f.beats = max(f.beats, m.beats)
	}
	said, empty := now.Add(-m.still), f.versionsDigestLocked() == 0
	if f.shadow == nil || said.After(f.advanced) {
		f.left.Store(m.left)
		f.heard.Store(min(f.heard.Load(), int64(said.Sub(f.r.started))))
	}
	if empty || said.After(f.advanced) {
		f.advanced = said
	}
	f.offset.add(now, m.offset)
	switch {
	case empty:
		return f.beginOfRelayLocked(m.clock, now)
	case f.visibleLocked():
		return true
	}
	return f.tellOrDropLocked(m.clock, later, later, now)
}

// beginOfRelayLocked makes the shadow. One that is empty begins again: its clock is that of a heartbeat, and
// ahead of the values that come. Rates would read low.
func (f *follower) beginOfRelayLocked(clock []byte, now time.Time) bool {
	shadow := f.shadow
	if shadow == nil {
		shadow = f.r.parts.NewShadow(f.key.name)
	}
	if err := shadow.Begin(clock); err != nil {
		if f.shadow == nil {
			shadow.End()
		}
		f.cannotReadLocked(err, now)
		return false
	}
	f.shadow = shadow
	return f.tellLocked(clock, false) == nil
}

func (f *follower) cannotReadLocked(err error, now time.Time) {
	f.unread = now
	f.r.reject(reasonWindows, f.key.name, err.Error())
}

// tellLocked advances the shadow's clock to one that the origin said before it became silent. One that is behind counts only
// if it may go back: it is of a later process, which began from an older disk.
func (f *follower) tellLocked(clock []byte, back bool) error {
	correction, _ := f.offset.correct()
	f.ran = false
	return f.shadow.AdvanceOf(clock, correction, f.advanced, back)
}

// visibleLocked reports whether readers see the shadow that is being completed.
func (f *follower) visibleLocked() bool { return f.r.origins.shows(f) == f.shadow }

// tellOrDropLocked advances the shadow's clock. A shadow that a later incarnation cannot continue is
// dropped: the next announcement begins another one.
func (f *follower) tellOrDropLocked(clock []byte, later, back bool, now time.Time) bool {
	err := f.tellLocked(clock, back)
	switch {
	case err == nil:
		return true
	case later:
		f.dropShadowLocked()
		f.restartLocked(f.incarnation, now)
	default:
		f.cannotReadLocked(err, now)
	}
	return false
}

// applyHeldLocked applies the blocks that waited. The clock is first and the blocks follow at once:
// a clock without its values would make rates read low.
func (f *follower) applyHeldLocked(now time.Time) {
	p := f.pull
	for i := range p.held {
		if !f.tellOrDropLocked(p.held[i].clock, p.held[i].version.incarnation == f.incarnation, false, now) {
			f.pull = nil
			f.relaying.Store(false)
			return
		}
	}
	for i := range p.held {
		f.applyRelayedLocked(&p.held[i], now)
	}
	p.held, p.bytes = nil, 0
}

// takeRelayedLocked takes a block.
func (f *follower) takeRelayedLocked(m *relayedBody, from string, now time.Time) {
	p := f.pull
	if p == nil || p.from != from || p.missing[m.block] == nil || m.block >= len(f.blocks) {
		return
	}
	delete(p.missing, m.block)
	p.progressed = now
	switch {
	case f.visibleLocked():
		p.held, p.bytes = append(p.held, *m), p.bytes+len(m.names)+len(m.state)
		if len(p.missing) == 0 || p.bytes > askBelow {
			f.applyHeldLocked(now)
		}
	case bytes.Equal(m.clock, p.state.clock) || f.tellLocked(m.clock, false) == nil:
		f.applyRelayedLocked(m, now)
	}
	f.pullLocked(now)
}

func (f *follower) applyRelayedLocked(m *relayedBody, now time.Time) {
	if !m.version.newer(f.versionLocked(m.block)) || m.version.incarnation > f.incarnation {
		return
	}
	b := &f.blocks[m.block]
	if err := f.shadow.ReplaceBlock(m.block, m.names, m.state); err != nil {
		f.damagedLocked(m.block, err)
		f.unread = now
		return
	}
	f.resyncs.Add(1)
	if m.version.incarnation < f.incarnation {
		b.former = m.version
		return
	}
	f.hasLocked(m.block, m.version.seq)
	b.letter = m.version.letter
}

// pullLocked asks for what is missing. If nothing is, the state is shown.
func (f *follower) pullLocked(now time.Time) {
	p := f.pull
	if p == nil {
		return
	}
	if now.Sub(p.progressed) >= pullPatience {
		f.pull = nil // relaying stays set while there is nothing to show
		f.relaying.Store(f.r.origins.shows(f) == nil)
		return
	}
	m := wantRelayBody{key: f.key}
	switch {
	case !p.compared:
		if now.Sub(p.asked) < askAgain {
			return
		}
		m.versions, p.asked = true, now
	case len(p.missing) == 0:
		f.endPullLocked(now)
		return
	default:
		if m.blocks = p.next(now); len(m.blocks) == 0 {
			return
		}
	}
	f.r.send(f.r.subjects.of(wantOf, p.from), typeWantRelay, m.append(nil), nil)
}

// next returns the blocks to ask for now: in their order, a bounded number at a time.
func (p *pull) next(now time.Time) (blocks []int) {
	outstanding := 0
	for i, b := range p.missing {
		if !b.asked.IsZero() && now.Sub(b.asked) < askAgain<<b.tries {
			outstanding++
			continue
		}
		blocks = append(blocks, i)
	}
	slices.Sort(blocks)
	blocks = blocks[:min(len(blocks), max(maxOutstanding-outstanding, 0))]
	for _, i := range blocks {
		b := p.missing[i]
		if !b.asked.IsZero() {
			b.tries = min(b.tries+1, lostTries)
		}
		b.asked = now
	}
	return blocks
}

// endPullLocked shows the state that has come. In place of one that readers see it is shown only if it is
// whole: the other replica may have heard of a restart, and received nothing yet.
func (f *follower) endPullLocked(now time.Time) {
	p := f.pull
	f.pull = nil
	applied := p.state.incarnation == f.incarnation && p.state.flush > 0
	if applied {
		f.cutFormerLocked(p.length)
		f.beat.flush = max(f.beat.flush, p.state.flush)
	}
	before := f.r.origins.shows(f)
	if before != f.shadow && (before == nil || applied && f.lacking == 0) {
		f.letRunLocked(f.shadow, now)
		f.r.origins.show(f, f.shadow)
		if before != nil {
			before.End()
		}
		f.r.log.Info("state of a silent origin read from another replica", "origin", f.key.name, "from", p.from)
	}
	f.reportLocked()
	f.relaying.Store(false)
	if f.r.parts.Relayed != nil {
		f.r.parts.Relayed()
	}
}

// cutFormerLocked removes the blocks of former incarnations that the present one no longer has.
func (f *follower) cutFormerLocked(count int) {
	for i := count; i < len(f.blocks); i++ {
		if b := &f.blocks[i]; !b.has && b.former != (version{}) {
			_ = f.shadow.ReplaceBlock(i, nil, nil)
			b.former = version{}
		}
	}
}

// dropShadowLocked gives up a shadow that cannot go on. It stays visible, if it was, until another
// one is complete.
func (f *follower) dropShadowLocked() {
	if f.r.origins.shows(f) != f.shadow {
		f.shadow.End()
	}
	f.shadow, f.blocks = nil, nil
	f.size.Store(0)
}

// endPullByOriginLocked ends the reading from another replica because the origin itself is heard.
func (f *follower) endPullByOriginLocked() {
	if !f.relaying.Load() && f.pull == nil {
		return
	}
	f.pull = nil
	f.relaying.Store(false)
	if f.shadow != nil && f.r.origins.shows(f) == nil {
		f.r.origins.show(f, f.shadow)
	}
}
