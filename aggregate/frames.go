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
// A change of a frame may wait, for its sender, while the frame and later ones are applied. So a mark also
// names the changes up to it that waited when the block was saved: the block does not include them.
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
	// wasConnected: a feed was connected when the restored state was saved, and could report to no other
	// table since.
	wasConnected bool
	// covered reports whether feeds could report to another table since a date; nil: there is none.
	covered func(since time.Time) bool
}

type feedState struct {
	restored uint64        // the highest mark of a restored block
	heard    time.Duration // receiving time of its last frame, or of the restore
	// came: frames came since the restore, and with them all that restored marks lack. waiting are the
	// changes that wait. The feed's own writer changes both within sections; saving reads them between
	// sections.
	came    bool
	waiting changes
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
	mu      sync.Mutex // guards last and unsaved
	last    map[uint64]uint64
	unsaved map[uint64]bool
	// restored are the marks that the block was restored with. Frames that come again are compared with
	// these: those that came since the restore, whatever they were, are not in them. Written before any
	// frame, and while no frame is applied.
	restored map[uint64]uint64
	// missing are the changes up to the restored marks that the block was saved without.
	missing map[uint64]changes
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
	known := f.feeds[feedID]
	if known == nil {
		if f.feeds == nil {
			f.feeds = map[uint64]*feedState{}
		}
		known = new(feedState)
		f.feeds[feedID] = known
	}
	known.heard, known.came = w.Now.At, true
	f.heard = max(f.heard, known.heard)
	w.frame = frameMark{feed: feedID, number: number, restored: known.restored, state: known}
	f.mu.Unlock()
}

// Change makes the samples that are applied next those of one change of the frame. late: it has waited.
func (w *Writer) Change(index uint32, late bool) {
	f := &w.frame
	f.index, f.late = index, late
	if late {
		delete(f.state.waiting, frameChange{f.number, index})
	}
}

// Wait says that the change is not applied yet. It comes again with Change.
func (w *Writer) Wait() {
	f := &w.frame
	if f.state.waiting == nil {
		f.state.waiting = changes{}
	}
	f.state.waiting[frameChange{f.number, f.index}] = struct{}{}
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
	late                   bool   // the change has waited, or the block was restored without it
	state                  *feedState
	noted                  *block // the block that has the mark of this frame since its last sample
}

// includes reports whether a series was restored with the frame that is applied. Otherwise it gives the block its mark.
func (w *Writer) includes(b *block, place uint32) bool {
	f := &w.frame
	if f.number == 0 {
		return false
	}
	late := f.late
	if f.number <= f.restored && b.restored.Has(place) && f.number <= b.feeds.restored[f.feed] {
		if _, late = b.feeds.missing[f.feed][frameChange{f.number, f.index}]; !late {
			return true
		}
	}
	if f.noted != b || late {
		b.feeds.note(f.feed, f.number, late)
		f.noted = b
	}
	return false
}

// note notes that a block includes a frame. late: the mark may include it already, but not this change of it.
func (m *feedMarks) note(feedID, number uint64, late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeLocked()
	if number > m.last[feedID] || late {
		m.last[feedID], m.unsaved[feedID] = max(m.last[feedID], number), true
	}
}

func (m *feedMarks) makeLocked() {
	if m.last == nil {
		m.last, m.unsaved, m.missing = map[uint64]uint64{}, map[uint64]bool{}, map[uint64]changes{}
	}
}

// restore takes a saved mark. If two have the same number, as those of a delta and a checkpoint of one
// flush, the later one may include more.
func (m *feedMarks) restore(feedID, number uint64, missing changes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeLocked()
	switch last := m.last[feedID]; {
	case number > last:
		m.last[feedID], m.missing[feedID] = number, missing
	case number == last:
		maps.DeleteFunc(m.missing[feedID], func(c frameChange, _ struct{}) bool { _, both := missing[c]; return !both })
	}
}

// A saved mark is the feed as eight bytes, the number, and how many changes it lacks: of each, the frame's
// number, and its own.

// appendChanged appends a record of the marks that changed since the last delta; nothing if none did.
func (m *feedMarks) appendChanged(dst []byte, f *frames) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.unsaved) == 0 {
		return dst
	}
	dst = m.appendLocked(append(dst, recordFrames), slices.Sorted(maps.Keys(m.unsaved)), f)
	clear(m.unsaved)
	return dst
}

// appendAll appends all marks to a block's state: behind a length of 0, which no value has. It appends
// nothing where there are none.
func (m *feedMarks) appendAll(dst []byte, f *frames) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) == 0 {
		return dst
	}
	return m.appendLocked(append(dst, 0), slices.Sorted(maps.Keys(m.last)), f)
}

func (m *feedMarks) appendLocked(dst []byte, feeds []uint64, f *frames) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(feeds)))
	var lacks []frameChange
	for _, id := range feeds {
		dst = binary.AppendUvarint(binary.LittleEndian.AppendUint64(dst, id), m.last[id])
		missing := m.missing[id]
		if known := f.feeds[id]; known != nil && known.came {
			missing = known.waiting
		}
		lacks = lacks[:0]
		for c := range missing {
			if c.number <= m.last[id] {
				lacks = append(lacks, c)
			}
		}
		dst = binary.AppendUvarint(dst, uint64(len(lacks)))
		for _, c := range lacks {
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.number), uint64(c.index))
		}
	}
	return dst
}

// frameMarks reads saved marks.
func (r *restorer) frameMarks(d *blob.Decoder) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		id, number, missing := d.Uint64(), d.Uvarint(), changes{}
		for lacks := d.Uvarint(); lacks > 0 && d.Err == nil; lacks-- {
			missing[frameChange{d.Uvarint(), d.Uint32()}] = struct{}{}
		}
		if d.Err == nil && r.live == nil { // shadows are never fed
			r.b.feeds.restore(id, number, missing)
		}
	}
}

// restoreFrames makes the marks that the blocks were saved with those of the restore.
func (t *Table) restoreFrames() {
	now := t.Clock.Now().At
	t.frames.feeds = map[uint64]*feedState{}
	for i := range t.blocks.made.Load() {
		b := t.blocks.at[i].Load()
		b.feeds.restored = maps.Clone(b.feeds.last)
		clear(b.feeds.unsaved)
		for id, number := range b.feeds.restored {
			known := t.frames.feeds[id]
			if known == nil {
				known = &feedState{heard: now}
				t.frames.feeds[id] = known
			}
			known.restored = max(known.restored, number)
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
	delete(m.missing, id)
}

// feeding returns the number of feeds whose marks are kept, and reports whether one of them is connected.
func (t *Table) feeding() (feeds int, connected bool) {
	now := t.Clock.Now().At
	t.frames.mu.Lock()
	defer t.frames.mu.Unlock()
	feeds = len(t.frames.feeds)
	return feeds, feeds > 0 && now-t.frames.heard <= feedsNow
}
