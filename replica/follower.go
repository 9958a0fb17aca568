package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

const (
	// standsAfter is the silence after which an origin stands still.
	standsAfter = 2 * time.Second
	// runsAfter is the time for which an origin stands still before its windows run out, livesFor the longest
	// time for which one that is cut off has its last rates.
	runsAfter = time.Minute
	livesFor  = 5 * time.Minute
	// asksAfter is the silence from which it is asked whether the origin lives.
	asksAfter = standsAfter / 2
	// endsAfter is the time for which the shadow of a silent origin is kept.
	endsAfter = 24 * time.Hour
)

// follower keeps the shadow of an origin's epoch. One goroutine handles its messages.
type follower struct {
	r     *Replica
	key   originKey
	shown Shadow // visible to readers; origins.mu guards it

	inbox    *inbox
	progress atomic.Pointer[progress]
	received atomic.Uint64
	gaps     atomic.Uint64
	resyncs  atomic.Uint64
	heard    atomic.Int64 // when the newest heartbeat arrived: nanoseconds since the replica's start
	fresh    atomic.Int64 // when the shadow was last equal to the origin as of a heartbeat that came at once
	left     atomic.Bool  // the process has said that it ends
	// unwritten: a part of the newest flush that is applied is not on the origin's disk.
	unwritten atomic.Bool
	joined    atomic.Bool  // the shadow has been complete
	size      atomic.Int64 // blocks
	// succeeded: another epoch of this name was heard since the newest heartbeat.
	succeeded atomic.Bool
	asker     atomic.Pointer[asker] // nil: no process of the origin has asked for documents
	// announced: the origin has answered which silent origins it has a shadow of.
	announced atomic.Bool
	// hears are the live origins that it then heard itself.
	hears atomic.Pointer[[]string]
	// relaying: another replica is to send the state of this origin.
	relaying atomic.Bool
	// cutOff: the origin is silent, and goes on receiving.
	cutOff atomic.Bool

	closing sync.Once
	closed  chan struct{}

	mu       sync.Mutex // guards all below
	shadow   Shadow     // that changes are applied to
	refused  time.Time  // when the origin's clock could not be read; zero: it could
	restart             // of the current incarnation
	older    olderProcess
	letters  letters
	offset   offset
	advanced time.Time // when the clock last advanced
	ran      bool      // the visible shadow's clock runs since
	lived    time.Time // when the silent origin was last known to live
	checked  time.Time // when the end of a silent origin was last looked for
	pull     *pull     // nil: the state does not come from another replica
	unread   time.Time // when the state of another replica could not be read; zero: it could
}

// restart is the state that begins anew with each incarnation.
type restart struct {
	incarnation uint64
	began       time.Time
	beats       uint64   // the number of the newest heartbeat
	newest      beatBody // that heartbeat, or an earlier one of the same flush
	beat        beatBody // the heartbeat whose flush is applied

	blocks  []followedBlock
	digest  uint64 // of the blocks that are of this incarnation
	lacking int    // blocks that lack a delta
	arrived int    // blocks of these that have come whole
	pending pending
	// incomplete is the time since which the newest flush waits for what is missing; zero: it does
	// not. partial is set when the wait is over: flushes are applied as they are until one is
	// complete.
	incomplete   time.Time
	partial      bool
	complete     bool // the shadow is equal to the origin as of the newest heartbeat
	askedNumbers time.Time
	askedSilent  time.Time

	docs           followedDocuments
	askedDocuments time.Time
	askedFlush     uint64 // the flush that the origin waits for; 0: none
	askedRemoved   uint64 // the flush whose removals it waits for; 0: none
	removals       uint64 // the own flush that has what the documents removed here
}

// followedBlock is a block of the shadow.
type followedBlock struct {
	has     bool    // the block is of this incarnation
	seq     uint64  // its newest delta
	letter  uint64  // see version
	former  version // of the content, if the block is not of this incarnation
	lacks   bool    // a delta is missing: the block must be asked for
	arrived bool    // it has come whole, and is pending
	asked   time.Time
	tries   int
}

func newFollower(r *Replica, key originKey) *follower {
	held := &r.othersHold
	if r.cfg.isPeer(key.name) {
		held = &r.peersHold
	}
	f := &follower{r: r, key: key, inbox: newInbox(held), closed: make(chan struct{})}
	f.letters.budget, f.pending.budget = held, held
	f.heard.Store(int64(r.now().Sub(r.started)))
	f.advanced = r.now()
	f.reportLocked()
	return f
}

// run handles messages until close.
func (f *follower) run() {
	stepped := f.r.now()
	look := time.NewTimer(stepEvery)
	defer look.Stop()
	for {
		select {
		case <-f.closed:
			f.mu.Lock()
			f.end()
			f.mu.Unlock()
			return
		case <-f.inbox.wake:
			for _, p := range f.inbox.take() {
				f.handle(&p, f.r.now())
			}
		case <-look.C:
		}
		if now := f.r.now(); now.Sub(stepped) >= stepEvery {
			f.step(now)
			stepped = now
		}
		look.Reset(f.nextStep())
	}
}

// nextStep is the time until the next look at what is overdue. While nothing is missing, each
// heartbeat comes before it, and a silent origin is not urgent: a timer of its own would wake the
// process as often as all else that an idle replica does.
func (f *follower) nextStep() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.r.now()
	asks := f.r.parts.Lives != nil && asksAfter <= f.silence(now) && f.silence(now) < standsAfter
	if f.pull == nil && !asks && (f.complete || !f.live(now)) {
		return beatEvery + stepEvery
	}
	return stepEvery
}

// close ends the follower. If it is forgotten, its shadow is removed.
func (f *follower) close() {
	f.closing.Do(func() { close(f.closed) })
	if f.r.inline {
		f.end()
	}
}

// end removes the shadow of a follower that is no longer visible.
func (f *follower) end() {
	if f.r.origins.has(f) {
		return
	}
	shown := f.r.origins.show(f, nil)
	if shown != nil {
		shown.End()
	}
	if f.shadow != nil && f.shadow != shown {
		f.shadow.End()
	}
	f.shadow = nil
	f.inbox.close()
	f.letters.clear()
	f.pending = pending{budget: f.pending.budget, bytes: f.pending.bytes}
	f.pending.give(f.pending.bytes)
}

// silence is the time since the last heartbeat.
func (f *follower) silence(now time.Time) time.Duration {
	return now.Sub(f.r.started) - time.Duration(f.heard.Load())
}

// live reports whether the origin is heard, and has not said that it ends.
func (f *follower) live(now time.Time) bool { return f.silence(now) < standsAfter && !f.left.Load() }

func (f *follower) handle(p *parcel, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if p.kind == typeBeat {
		err = f.handleBeatLocked(p, now)
	} else if p.name != f.key.name || p.epoch != f.key.epoch {
		err = f.handleRelayLocked(p, now)
	} else if p.incarnation == f.incarnation && f.shadow != nil {
		if body, complete := f.letters.join(&p.header, p.piece); complete {
			err = f.handleBodyLocked(p, body, now)
		}
	}
	if err != nil {
		f.r.rejectError(err, f.key.name)
	}
}

func (f *follower) handleBodyLocked(p *parcel, body []byte, now time.Time) error {
	switch p.kind {
	case typeDelta, typeUnsent:
		m, err := readDelta(body)
		if m.unsent = p.kind == typeUnsent; err == nil {
			f.addDeltaLocked(&m, now)
		}
		return err
	case typeWhole:
		m, err := readWhole(body)
		if m.letter = p.letter; err == nil {
			f.addWholeLocked(&m, now)
		}
		return err
	case typeNumbers:
		m, err := readNumbers(body)
		if err == nil {
			f.compareNumbersLocked(m.seqs, now)
		}
		return err
	case typeDocuments:
		m, err := readDocuments(body)
		if err == nil && !f.asker.Load().follows(p.incarnation, now) {
			f.applyDocumentsLocked(&m)
		}
		return err
	case typeSync:
		m, err := readSync(body)
		if err == nil {
			f.noteSyncLocked(&m)
		}
		return err
	case typeRelay:
		return f.announcedLocked(p, body)
	case typeVersions, typeRelayed:
		d := blob.Decoder{Rest: body}
		key := readKey(&d)
		f.passLocked(p, key, body, 0)
		return d.Err
	}
	return errDamaged
}

func (f *follower) handleBeatLocked(p *parcel, now time.Time) error {
	if p.pieces != 1 {
		return errDamaged
	}
	m, err := readBeat(p.piece)
	if err != nil {
		return err
	}
	if p.incarnation != f.incarnation {
		if !f.succeedsLocked(p.incarnation, m.number, now) {
			return nil
		}
		f.restartLocked(p.incarnation, now)
	}
	if m.number <= f.beats {
		return nil // late, or doubled
	}
	if f.beats > 0 && f.key.name == f.r.me.name {
		f.r.namesake.hearOther(f.r)
	}
	f.beats = m.number
	f.heard.Store(int64(now.Sub(f.r.started)))
	f.left.Store(m.leaving)
	f.succeeded.Store(false)
	f.endPullByOriginLocked()
	way := time.Duration(f.r.wall().UnixNano() - m.sent)
	f.offset.add(now, way)
	if !f.beginLocked(&m, now) {
		return nil
	}
	if m.flush >= f.newest.flush {
		f.newest = m
	}
	f.tryLocked(now)
	f.compareLocked(now)
	f.askLocked(now)
	f.reportLocked()
	if f.complete && way < f.offset.least()+freshWithin {
		f.fresh.Store(int64(now.Sub(f.r.started)))
	}
	return nil
}

// progress is what readers of the status see while messages are being applied.
type progress struct {
	advanced time.Time
	offset   time.Duration
	complete bool
}

func (f *follower) reportLocked() {
	f.progress.Store(&progress{f.advanced, f.offset.least(), f.complete})
}

// olderProcess notices that a process of an older incarnation still sends heartbeats.
type olderProcess struct {
	incarnation, number uint64
}

// again notes a heartbeat, and reports whether the process has sent an earlier one: late messages
// of a former process don't come in order and for long.
func (o *olderProcess) again(incarnation, number uint64) bool {
	before := *o
	if before.incarnation == incarnation && number <= before.number {
		return false
	}
	*o = olderProcess{incarnation, number}
	return before.incarnation == incarnation
}

const olderAfter = 10 * time.Second

// succeedsLocked reports whether a heartbeat of another incarnation makes it the current one. The
// later start wins; an earlier one only if the current is silent.
func (f *follower) succeedsLocked(incarnation, number uint64, now time.Time) bool {
	if incarnation > f.incarnation {
		return true
	}
	again := f.older.again(incarnation, number)
	if f.silence(now) >= standsAfter {
		return again
	}
	if again && now.Sub(f.began) > olderAfter {
		f.r.reject(reasonName, f.key.name, sameState)
	}
	return false
}

// restartLocked begins another incarnation. The blocks of the former stay visible (R2).
func (f *follower) restartLocked(incarnation uint64, now time.Time) {
	if f.incarnation != 0 {
		f.r.note("origin restarted", f.key.name)
	}
	if incarnation != f.incarnation { // which may have windows that can be read
		f.refused, f.unread = time.Time{}, time.Time{}
	}
	blocks := f.blocks
	for i := range blocks {
		blocks[i] = followedBlock{lacks: true, former: f.versionLocked(i)}
	}
	f.pending.give(f.pending.bytes)
	f.restart = restart{
		incarnation: incarnation, began: now, blocks: blocks, lacking: len(blocks),
		pending: pending{budget: f.pending.budget},
	}
	f.letters.clear()
	f.cutOff.Store(false)
}

// beginLocked makes the shadow. It reports false if the origin's state cannot be read.
func (f *follower) beginLocked(m *beatBody, now time.Time) bool {
	if f.shadow != nil {
		return true
	}
	if !f.refused.IsZero() && now.Sub(f.refused) < time.Minute {
		return false
	}
	shadow := f.r.parts.NewShadow(f.key.name)
	if err := shadow.Begin(m.clock); err != nil {
		f.refused = now
		shadow.End()
		f.r.reject(reasonWindows, f.key.name, err.Error())
		return false
	}
	f.refused = time.Time{}
	f.shadow = shadow
	if f.r.origins.shows(f) == nil {
		f.r.origins.show(f, shadow)
		f.r.note("origin found", f.key.name)
	}
	return true
}

// step does what is overdue.
func (f *follower) step(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	still := now.Sub(f.advanced)
	shown := f.r.origins.shows(f)
	if shown != nil {
		f.judgeLocked(shown, now)
	}
	if shown != nil && !f.ran {
		f.letRunLocked(shown, now)
	}
	f.pullLocked(now)
	if f.silence(now) < standsAfter {
		f.askLocked(now)
	}
	if still >= runsAfter && now.Sub(f.checked) >= runsAfter {
		f.checked = now
		f.dropWaitingLocked()
		if still >= endsAfter || expired(shown) {
			f.r.note("origin forgotten", f.key.name, "still", still.Round(time.Second))
			f.forgetLocked(shown)
		}
	}
}

// dropWaitingLocked gives back what waits for the rest of a message or of a flush: all origins share the room.
func (f *follower) dropWaitingLocked() {
	f.letters.clear()
	f.pending.give(f.pending.bytes)
	f.pending, f.arrived = pending{budget: f.pending.budget}, 0
	for i := range f.blocks {
		if b := &f.blocks[i]; b.arrived {
			b.arrived, b.asked = false, time.Time{}
		}
	}
}

func (f *follower) forgetLocked(shown Shadow) {
	if shown != nil {
		f.r.origins.end(f)
	} else {
		f.r.origins.forget(f)
	}
}

// judgeLocked decides whether an origin of which nothing new comes has ended or is cut off. One that is heard
// again is cut off until its state is here.
func (f *follower) judgeLocked(shadow Shadow, now time.Time) {
	still := now.Sub(f.advanced)
	lives := asksAfter <= still && still < livesFor && !f.ran && !f.left.Load()
	if lives && f.silence(now) >= asksAfter {
		lives = f.r.parts.Lives != nil && !f.r.origins.isFormer(f) && f.r.parts.Lives(f.key.name)
	} else {
		lives = lives && f.cutOff.Load()
	}
	if lives {
		f.lived = now
	}
	if cut := lives && still >= standsAfter; f.cutOff.Swap(cut) != cut && cut {
		f.r.log.Warn("an origin is cut off: it lives, and nothing is heard of it; its last rates stand",
			"origin", f.key.name, "at most", livesFor)
	}
	shadow.SetLives(lives)
}

// letRunLocked makes the clock of a shadow go on if its origin has been silent for long enough.
func (f *follower) letRunLocked(shadow Shadow, now time.Time) {
	since := f.advanced.Add(runsAfter)
	if f.lived.After(since) {
		since = f.lived
	}
	if !f.cutOff.Load() && !now.Before(since) {
		f.ran = true
		shadow.LetRun(since)
	}
}

// expired reports whether a visible shadow has nothing left to answer with.
func expired(shown Shadow) bool { return shown == nil || shown.Expired() }
