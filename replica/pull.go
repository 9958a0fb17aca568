package replica

import (
	"time"
)

const (
	// maxOutstanding bounds the blocks that are asked for and have not arrived.
	maxOutstanding = 32
	// askAgain is the time after which a question is repeated. It doubles with each try, up to
	// four times. For a block that could not be read it is sixteen times as long.
	askAgain     = time.Second
	lostTries    = 2
	damagedTries = 4
)

// compareLocked compares the shadow with the origin as of a heartbeat.
func (f *follower) compareLocked(m *beatBody, now time.Time) {
	if f.shadow == nil || m.flush != f.beat.flush {
		return
	}
	f.complete = f.lacking == 0 && f.digest == m.digest
	switch {
	case f.complete:
		f.joined.Store(true)
		if before := f.r.origins.shows(f); before != f.shadow {
			f.r.origins.show(f, f.shadow)
			before.End()
		}
	case f.lacking == 0 && now.Sub(f.askedNumbers) >= beatEvery:
		f.askedNumbers = now
		f.wantLocked(&wantBody{numbers: true})
	}
	if f.r.parts.Documents != nil && f.docs.lacks(m.documents) && now.Sub(f.askedDocuments) >= askAgain {
		f.askedDocuments = now
		f.wantLocked(&wantBody{documents: true})
	}
}

// compareNumbersLocked finds the blocks that lack a delta which no later one has shown.
func (f *follower) compareNumbersLocked(seqs []uint64, now time.Time) {
	for block := range min(len(f.blocks), len(seqs)) {
		if b := &f.blocks[block]; !b.lacks && max(b.seq, f.pending.newest(block)) < seqs[block] {
			f.gaps.Add(1)
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
	for i := range f.blocks {
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
	f.r.send(f.r.subjects.of(topicWant, f.key.name), typeWant, m.append(nil), nil)
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
	f.askLocked(now)
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
	}
	f.docs.enter(m)
}

// answerSyncLocked tells an origin that its flush is applied here.
func (f *follower) answerSyncLocked(m *syncBody) {
	if m.of.incarnation != f.incarnation || !f.complete || f.beat.flush < m.flush {
		return
	}
	f.r.send(f.r.subjects.of(topicSynced, f.key.name, f.r.me.name), typeSynced, m.append(nil), nil)
}
