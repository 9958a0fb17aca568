package aggregate

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/kind"
)

// A frame is a numbered batch of samples from another process that receives, such as an agent of a node. One
// run of that process is a feed. A frame may come again: its sender repeats what it does not know to be on
// disk here. Each of its samples counts once, also if the table was restored from a flush that ran while
// frames came: every block saves, together with its values, the number of the last frame of each feed that
// they include (its mark). After a restore, a frame that comes again skips the series that were restored in a
// block whose mark includes the frame. Series of that frame that were not saved are created anew, in any
// block, and take it.
//
// A change of a frame may wait, for its sender, while the frame and later ones are applied. So the marks of a
// feed have an exception: the changes that no saved block includes, whatever its mark. A block that is saved
// says them if they changed since the last block did, and of all that blocks have said the last counts. A
// change leaves them with the block that is saved with it, so both are on disk or neither is. What
// replicas alone get takes no part in that. Only a kill between a write that failed and the end of the next
// flush may lose changes that waited.
//
// So the changes of a block are saved between frames, never within one; and the frames that a restored table
// may include are applied again all at once, before the next flush.

// frames are the feeds of a table.
type frames struct {
	// applying is held for reading while frames are applied, for writing while a block is saved.
	applying sync.RWMutex
	mu       sync.Mutex // guards the fields below; locked after applying
	feeds    map[uint64]*feedState
	heard    time.Duration // receiving time of the last frame of all
	said     uint64        // the highest version of all feeds, also of those that are forgotten
	// wasConnected: a feed was connected when the restored state was saved, and could report to no other
	// table since.
	wasConnected bool
	// covered reports whether feeds could report to another table since a date; nil: there is none.
	covered func(since time.Time) bool
}

type feedState struct {
	restored uint64        // the highest mark of a restored block
	heard    time.Duration // receiving time of its last frame, or of the restore
	// waiting are the changes that no saved block includes: those that wait, and those applied since to a
	// block that is not saved yet. changed: blocks have not said them; version numbers what they have said,
	// above all that records of the feed on disk may say.
	// The feed's own writer changes them within sections, saving between sections.
	waiting changes
	changed bool
	version uint64
}

// changes is a set of changes of frames.
type changes map[frameChange]struct{}

type frameChange struct {
	number uint64 // of the frame
	index  uint32 // in it
}

const (
	// feedLife is the time after its last frame for which a feed's marks are kept.
	feedLife = time.Hour
	// feedsNow is the time after its last frame in which a feed counts as connected.
	feedsNow = 30 * time.Second
)

// feedMarks are the numbers of the last frames that a block includes, by feed.
type feedMarks struct {
	mu      sync.Mutex // guards last, unsaved and late
	last    map[uint64]uint64
	unsaved map[uint64]bool
	late    []lateChange // applied since the block was saved
	// restored are the marks that the block was restored with. Frames that come again are compared with
	// these: those that came since the restore, whatever they were, are not in them. Written before any
	// frame, and while no frame is applied.
	restored map[uint64]uint64
}

// lateChange is a change that has waited.
type lateChange struct {
	frameChange
	of *feedState
}

// EnterFrames begins a section in which frames are applied: Frame, then Apply for its samples, and so on. No
// block is saved before LeaveFrames, so a section never waits. After a restore, the frames up to Restored
// must be applied in one section.
func (w *Writer) EnterFrames() { w.table.frames.applying.RLock() }

// LeaveFrames ends the section.
func (w *Writer) LeaveFrames() {
	w.frame = frameMark{}
	w.table.frames.applying.RUnlock()
}

// Frame makes the samples that are applied next part of a frame of a feed. Numbers begin at 1, and no number
// comes twice from one feed except after a restore, or for changes that wait. A feed has one writer at a
// time.
func (w *Writer) Frame(feedID, number uint64) {
	f := &w.table.frames
	f.mu.Lock()
	known := f.feedLocked(feedID)
	known.heard = w.Now.At
	f.heard = max(f.heard, known.heard)
	w.frame = frameMark{feed: feedID, number: number, restored: known.restored, state: known}
	f.mu.Unlock()
}

func (f *frames) feedLocked(id uint64) *feedState {
	known := f.feeds[id]
	if known == nil {
		if f.feeds == nil {
			f.feeds = map[uint64]*feedState{}
		}
		known = new(feedState)
		f.feeds[id] = known
	}
	return known
}

// Change makes the samples that are applied next those of one change of the frame. It may have waited, or
// be missing from the blocks that were restored. If it is rejected, blocks need not say so: no block has it.
func (w *Writer) Change(index uint32) {
	f := &w.frame
	f.index = index
	change := frameChange{f.number, index}
	if _, f.late = f.state.waiting[change]; f.late {
		f.noted = nil
		delete(f.state.waiting, change)
	}
}

// Wait says that the change is not applied yet. It comes again with Change.
func (w *Writer) Wait() {
	f := &w.frame
	f.state.changed = f.state.changed || !f.late
	f.state.keep(frameChange{f.number, f.index})
}

// keep puts a change among those that no saved block includes.
func (s *feedState) keep(c frameChange) {
	if s.waiting == nil {
		s.waiting = changes{}
	}
	s.waiting[c] = struct{}{}
}

// Restored returns the number of the last frame of a feed of which restored series may include something; 0:
// there is none.
func (t *Table) Restored(feedID uint64) uint64 {
	t.frames.mu.Lock()
	defer t.frames.mu.Unlock()
	if known := t.frames.feeds[feedID]; known != nil {
		return known.restored
	}
	return 0
}

// OnOutage sets how a restore finds out whether feeds could report to another table, such as another
// replica's, since a date. If so, the outage is no receiving time, and the feeds are not awaited.
func (t *Table) OnOutage(covered func(since time.Time) bool) { t.frames.covered = covered }

// FeedsAwaited returns the feeds that go on if the former process was killed a moment ago: those of
// restored blocks, if one of them was connected and could report to no other table.
func (t *Table) FeedsAwaited() (all []uint64) {
	t.frames.mu.Lock()
	defer t.frames.mu.Unlock()
	if !t.frames.wasConnected {
		return nil
	}
	for id, known := range t.frames.feeds {
		if known.restored > 0 {
			all = append(all, id)
		}
	}
	return all
}

// frameMark is the frame that a writer applies; the zero frameMark: none.
type frameMark struct {
	feed, number, restored uint64
	index                  uint32 // of the change
	late                   bool   // no saved block includes the change, whatever its mark
	state                  *feedState
	noted                  *block // the block that has the mark of this frame, and a late change
}

// includes reports whether a series was restored with the frame that is applied. Otherwise it gives the block its mark.
func (w *Writer) includes(b *block, place uint32) bool {
	f := &w.frame
	if f.number == 0 {
		return false
	}
	if !f.late && f.number <= f.restored && b.restored.Has(place) && f.number <= b.feeds.restored[f.feed] {
		return true
	}
	if f.noted != b {
		b.feeds.note(f)
		f.noted = b
	}
	return false
}

// note notes that a block includes a change of a frame. If the change is late, its mark may include the frame
// already.
func (m *feedMarks) note(f *frameMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeLocked()
	if f.number > m.last[f.feed] || f.late {
		m.last[f.feed], m.unsaved[f.feed] = max(m.last[f.feed], f.number), true
	}
	if f.late {
		change := frameChange{f.number, f.index}
		f.state.keep(change)
		m.late = append(m.late, lateChange{change, f.state})
	}
}

func (m *feedMarks) makeLocked() {
	if m.last == nil {
		m.last, m.unsaved = map[uint64]uint64{}, map[uint64]bool{}
	}
}

// restore takes a saved mark.
func (m *feedMarks) restore(feedID, number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeLocked()
	m.last[feedID] = max(m.last[feedID], number)
}

// A saved mark is the feed as eight bytes, the number, and the version of the changes that no saved block
// includes; 0: another block says them. Behind a version is how many they are: of each, the frame's number, and
// its own.

// appendChanged appends a record of the marks that changed since the last delta; nothing if none did.
func (m *feedMarks) appendChanged(dst []byte, f *frames) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.unsaved) == 0 {
		return dst
	}
	dst = m.appendLocked(append(dst, recordFrames), slices.Sorted(maps.Keys(m.unsaved)), f, false)
	clear(m.unsaved)
	return dst
}

// appendAll appends all marks to a block's state: behind a length of 0, which no value has. It appends
// nothing where there are none. The state replaces deltas, so it says again what they said.
func (m *feedMarks) appendAll(dst []byte, f *frames) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) == 0 {
		return dst
	}
	return m.appendLocked(append(dst, 0), slices.Sorted(maps.Keys(m.last)), f, true)
}

func (m *feedMarks) appendLocked(dst []byte, feeds []uint64, f *frames, again bool) []byte {
	for _, late := range m.late {
		delete(late.of.waiting, late.frameChange)
		late.of.changed = true
	}
	m.late = nil
	dst = binary.AppendUvarint(dst, uint64(len(feeds)))
	for _, id := range feeds {
		dst = binary.AppendUvarint(binary.LittleEndian.AppendUint64(dst, id), m.last[id])
		dst = f.appendWaitingLocked(dst, f.feeds[id], again)
	}
	return dst
}

// appendWaitingLocked appends the changes of a feed that no saved block includes. again: also if a block has said them.
func (f *frames) appendWaitingLocked(dst []byte, s *feedState, again bool) []byte {
	if s == nil || !s.changed && !again {
		return append(dst, 0)
	}
	if s.changed {
		f.said++
		s.version, s.changed = f.said, false
	}
	if dst = binary.AppendUvarint(dst, s.version); s.version == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.waiting)))
	for c := range s.waiting {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.number), uint64(c.index))
	}
	return dst
}

// frameMarks reads saved marks. A shadow, which is never fed, has none.
func (r *restorer) frameMarks(d *blob.Decoder) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		id, number, version := d.Uint64(), d.Uvarint(), d.Uvarint()
		var waiting changes
		if version > 0 {
			waiting = r.waiting(d)
		}
		if d.Err == nil && r.live == nil {
			r.b.feeds.restore(id, number)
			r.t.frames.restore(id, version, waiting)
		}
	}
}

func (r *restorer) waiting(d *blob.Decoder) (all changes) {
	if r.live == nil {
		all = changes{}
	}
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		if c := (frameChange{d.Uvarint(), d.Uint32()}); all != nil {
			all[c] = struct{}{}
		}
	}
	return all
}

// restore takes what a block has said, if none has said anything later.
func (f *frames) restore(feedID, version uint64, waiting changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = max(f.said, version)
	if known := f.feedLocked(feedID); version > known.version {
		known.version, known.waiting = version, waiting
	}
}

// restoreFrames makes the marks that the blocks were saved with those of the restore.
func (t *Table) restoreFrames() {
	now := t.Clock.Now().At
	for i := range t.blocks.made.Load() {
		b := t.blocks.at[i].Load()
		b.feeds.restored = maps.Clone(b.feeds.last)
		clear(b.feeds.unsaved)
		for id, number := range b.feeds.restored {
			known := t.frames.feeds[id]
			known.restored, known.heard = max(known.restored, number), now
		}
		for place := range uint32(kind.BlockSeries) {
			if len(b.feeds.restored) > 0 && b.page.cells[place].State.Load()&kind.Live != 0 {
				b.restored.Mark(place)
			}
		}
	}
}

// forgetFeeds forgets the marks of feeds that ended long ago in all blocks.
func (t *Table) forgetFeeds(now time.Duration) {
	t.frames.applying.Lock()
	defer t.frames.applying.Unlock()
	t.frames.mu.Lock()
	defer t.frames.mu.Unlock()
	for id, known := range t.frames.feeds {
		if now-known.heard > feedLife {
			t.forgetLocked(id)
		}
	}
}

// ForgetFeed forgets a feed of which no frame comes again.
func (t *Table) ForgetFeed(id uint64) {
	t.frames.applying.Lock()
	defer t.frames.applying.Unlock()
	t.frames.mu.Lock()
	defer t.frames.mu.Unlock()
	t.forgetLocked(id)
}

func (t *Table) forgetLocked(id uint64) {
	delete(t.frames.feeds, id)
	for i := range t.blocks.made.Load() {
		t.blocks.at[i].Load().feeds.forget(id)
	}
}

func (m *feedMarks) forget(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, id)
	delete(m.unsaved, id)
	delete(m.restored, id)
}

// feeding returns the number of feeds whose marks are kept, and reports whether one of them is connected.
func (t *Table) feeding() (feeds int, connected bool) {
	now := t.Clock.Now().At
	t.frames.mu.Lock()
	defer t.frames.mu.Unlock()
	feeds = len(t.frames.feeds)
	return feeds, feeds > 0 && now-t.frames.heard <= feedsNow
}
