package replica

import (
	"time"
)

const (
	// maxOutstanding bounds the blocks that are asked for and have not arrived.
	maxOutstanding = 32
	// askAgain is the time after which a question is repeated for the first time. It doubles once,
	// and is thirty-two times as long for a block that could not be read.
	askAgain     = 500 * time.Millisecond
	lostTries    = 1
	damagedTries = 5
)

// compareLocked compares the shadow with the origin as of the newest heartbeat.
func (f *follower) compareLocked(now time.Time) {
	m := &f.newest
	if f.shadow == nil || m.flush == 0 {
		return
	}
	f.complete = f.beat.flush == m.flush && f.lacking == 0 && f.digest == m.digest
	lacksDocuments := f.lacksDocumentsLocked()
	defer f.reportLocked()
	switch {
	case f.complete:
		if !lacksDocuments { // without them, deleted series would be answered
			f.joined.Store(true)
		}
		f.answerSyncLocked()
		if before := f.r.origins.shows(f); before != f.shadow {
			f.r.origins.show(f, f.shadow)
			if before != nil { // it is nil while a state that other replicas pass on is incomplete
				before.End()
			}
		}
	case f.awaitedLocked() == 0 && now.Sub(f.askedNumbers) >= beatEvery:
		f.askedNumbers = now
		f.wantLocked(&wantBody{numbers: true})
	}
	f.askSilentLocked(now)
	if lacksDocuments && now.Sub(f.askedDocuments) >= askAgain {
		f.askedDocuments = now
		f.wantLocked(&wantBody{documents: true})
	}
}

// lacksDocumentsLocked reports whether documents are missing that the newest heartbeat tells of.
func (f *follower) lacksDocumentsLocked() bool {
	return f.r.parts.Documents != nil && f.docs.lacks(f.newest.documents)
}

// askSilentLocked asks for the first announcement of silent origins.
func (f *follower) askSilentLocked(now time.Time) {
	if !f.announced.Load() && now.Sub(f.askedSilent) >= askAgain {
		f.askedSilent = now
		f.wantLocked(&wantBody{silent: true})
	}
}

// awaitedLocked is the number of blocks that lack a delta and have not arrived. Blocks that a
// restarted origin has no longer don't come.
func (f *follower) awaitedLocked() int {
	awaited := f.lacking - f.arrived
	for i := f.newest.blocks; i < len(f.blocks); i++ {
		if f.blocks[i].lacks && !f.blocks[i].arrived {
			awaited--
		}
	}
	return awaited
}

// compareNumbersLocked finds the blocks that lack a delta which no later one has shown.
func (f *follower) compareNumbersLocked(seqs []uint64, now time.Time) {
	for block := range min(len(f.blocks), len(seqs)) {
		if max(f.blocks[block].seq, f.pending.newest(block)) < seqs[block] {
			f.lackLocked(block)
		}
	}
	f.askLocked(now)
}

// askLocked asks for blocks that are lacking, a bounded number at a time.
func (f *follower) askLocked(now time.Time) {
	if f.lacking == 0 || f.pending.bytes > askBelow {
		return
	}
	var m wantBody
	outstanding := 0
	for i := range min(len(f.blocks), f.newest.blocks) {
		b := &f.blocks[i]
		switch {
		case !b.lacks || b.arrived:
		case !b.asked.IsZero() && now.Sub(b.asked) < askAgain<<b.tries:
			outstanding++
		default:
			m.blocks = append(m.blocks, i)
		}
	}
	m.blocks = m.blocks[:min(len(m.blocks), max(maxOutstanding-outstanding, 0))]
	if len(m.blocks) == 0 {
		return
	}
	for _, i := range m.blocks {
		b := &f.blocks[i]
		if !b.asked.IsZero() {
			b.tries = min(b.tries+1, lostTries)
		}
		b.asked = now
	}
	f.wantLocked(&m)
}

func (f *follower) wantLocked(m *wantBody) {
	m.of = sender{epoch: f.key.epoch, incarnation: f.incarnation}
	f.r.send(f.r.subjects.of(wantOf, f.key.name), typeWant, m.append(nil), nil)
}

// addWholeLocked keeps a whole block that was asked for.
func (f *follower) addWholeLocked(m *wholeBody, now time.Time) {
	if m.block >= len(f.blocks) {
		return
	}
	b := &f.blocks[m.block]
	if !b.lacks || b.asked.IsZero() || b.arrived || !f.pending.addWhole(m) {
		return
	}
	b.arrived = true
	f.arrived++
	if f.awaitedLocked() == 0 && !f.partial {
		f.tryLocked(now)
		f.compareLocked(now)
	}
	f.askLocked(now)
}

// asker is the process of an origin that has asked for documents here. A document that was lost with its
// former process and arrives late is not taken: the answer doesn't have it, so nobody else would hear of it.
type asker struct {
	incarnation uint64
	at          time.Time
}

// follows reports whether an incarnation is a former one. Late messages don't come for long: those that come
// later are of another living process, see olderProcess.
func (a *asker) follows(incarnation uint64, now time.Time) bool {
	return a != nil && incarnation < a.incarnation && now.Sub(a.at) < olderAfter
}

// noteAsker notes who asks for documents, before the answer.
func (o *origins) noteAsker(h *header, now time.Time) {
	f := o.find(originKey{h.name, h.epoch})
	if f != nil && !f.asker.Load().follows(h.incarnation, now) {
		f.asker.Store(&asker{h.incarnation, now})
	}
}

func (f *follower) applyDocumentsLocked(m *documentsBody) {
	if f.r.parts.Documents == nil {
		return
	}
	correction, _ := f.offset.correct()
	for i := range m.docs {
		m.docs[i].Stamp += correction.Milliseconds()
	}
	if len(m.docs) > 0 {
		f.r.parts.Documents.Apply(f.key.name, m.docs)
		f.removals = f.r.publisher.afterNow()
	}
	if f.docs.enter(m); m.batches > 0 && f.docs.left > 0 { // the others follow
		f.askedDocuments = f.r.now()
	}
	f.answerSyncLocked()
}

// noteSyncLocked answers the question whether a flush is applied, at once or when it is.
func (f *follower) noteSyncLocked(m *syncBody) {
	if m.removed {
		f.askedRemoved = max(f.askedRemoved, m.flush)
	} else {
		f.askedFlush = max(f.askedFlush, m.flush)
	}
	f.answerSyncLocked()
}

// answerSyncLocked tells an origin that the flush that it asked for is applied here, with the documents before
// it; and that what they removed here is gone everywhere.
func (f *follower) answerSyncLocked() {
	if !f.complete || f.lacksDocumentsLocked() {
		return
	}
	if f.askedFlush > 0 && f.beat.flush >= f.askedFlush {
		f.askedFlush = 0
		f.confirmLocked(false)
	}
	if f.askedRemoved > 0 && f.beat.flush >= f.askedRemoved && f.r.syncs.isEverywhere(f.removals) {
		f.askedRemoved = 0
		f.confirmLocked(true)
	}
}

func (f *follower) confirmLocked(removed bool) {
	s := sender{epoch: f.key.epoch, incarnation: f.incarnation}
	m := syncBody{of: s, flush: f.beat.flush, removed: removed}
	f.r.send(f.r.subjects.of(syncedOf, f.key.name, f.r.me.name), typeSynced, m.append(nil), nil)
}
