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

// A frame is a numbered batch of samples from another process that receives, such as an agent of a node. One run of that
// process is a feed. A frame may come again: its sender repeats what it does not know to be on disk here. Each of its
// samples counts once, also if the table was restored from a flush that ran while frames came: every block saves, together
// with its values, the number of the last frame of each feed that they include (its mark). After a restore, a frame
// that comes again skips the series that were restored in a block whose mark includes the frame. Series of that
// frame that were not saved are created anew, in any block, and take it.
//
// So the changes of a block are saved between frames, never within one; and the frames that a restored table may include are
// applied again all at once, before the next flush.

// frames are the feeds of a table.
type frames struct {
	// applying is held for reading while frames are applied, for writing while a block is saved.
	applying sync.RWMutex
	mu       sync.Mutex // guards the fields below; locked after applying
	feeds    map[uint64]*feedState
	heard    time.Duration // receiving time of the last frame of all
}

type feedState struct {
	restored uint64        // the highest mark of a restored block
	heard    time.Duration // receiving time of its last frame, or of the restore
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
	// restored are the marks that the block was restored with. Frames that come again are compared with these: those that
	// came since the restore, whatever they were, are not in them. Written before any frame, and while no frame is applied.
	restored map[uint64]uint64
}

// EnterFrames begins a section in which frames are applied: Frame, then Apply for its samples, and so on. No block is saved
// before LeaveFrames, so a section never waits. After a restore, the frames up to Restored must be applied in one section.
func (w *Writer) EnterFrames() { w.table.frames.applying.RLock() }

// LeaveFrames ends the section.
func (w *Writer) LeaveFrames() {
	w.frame = frameMark{}
	w.table.frames.applying.RUnlock()
}

// Frame makes the samples that are applied next part of a frame of a feed. Numbers begin at 1, and no number comes twice
// from one feed except after a restore.
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
	known.heard = w.Now.At
	f.heard = max(f.heard, known.heard)
	w.frame = frameMark{feed: feedID, number: number, restored: known.restored}
	f.mu.Unlock()
}

// Restored returns the number of the last frame of a feed of which restored series may include something; 0: there is none.
func (t *Table) Restored(feedID uint64) uint64 {
	t.frames.mu.Lock()
	defer t.frames.mu.Unlock()
	if known := t.frames.feeds[feedID]; known != nil {
		return known.restored
	}
	return 0
}

// frameMark is the frame that a writer applies; the zero frameMark: none.
type frameMark struct {
	feed, number, restored uint64
	noted                  *block // the block that has the mark of this frame since its last sample
}

// includes reports whether a series was restored with the frame that is applied. Otherwise it gives the block its mark.
func (w *Writer) includes(b *block, place uint32) bool {
	f := &w.frame
	if f.number == 0 {
		return false
	}
	if f.number <= f.restored && b.restored.Has(place) && f.number <= b.feeds.restored[f.feed] {
		return true
	}
	if f.noted != b {
		b.feeds.note(f.feed, f.number)
		f.noted = b
	}
	return false
}

func (m *feedMarks) note(feedID, number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last, m.unsaved = map[uint64]uint64{}, map[uint64]bool{}
	}
	if number > m.last[feedID] {
		m.last[feedID], m.unsaved[feedID] = number, true
	}
}

// A saved mark is the feed as eight bytes, and the number.

// appendChanged appends a record of the marks that changed since the last delta; nothing if none did.
func (m *feedMarks) appendChanged(dst []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.unsaved) == 0 {
		return dst
	}
	dst = m.appendLocked(append(dst, recordFrames), slices.Sorted(maps.Keys(m.unsaved)))
	clear(m.unsaved)
	return dst
}

// appendAll appends all marks to a block's state: behind a length of 0, which no value has. It appends nothing where there
// are none.
func (m *feedMarks) appendAll(dst []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) == 0 {
		return dst
	}
	return m.appendLocked(append(dst, 0), slices.Sorted(maps.Keys(m.last)))
}

func (m *feedMarks) appendLocked(dst []byte, feeds []uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(feeds)))
	for _, id := range feeds {
		dst = binary.AppendUvarint(binary.LittleEndian.AppendUint64(dst, id), m.last[id])
	}
	return dst
}

// frameMarks reads saved marks.
func (r *restorer) frameMarks(d *blob.Decoder) {
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		id, number := d.Uint64(), d.Uvarint()
		if d.Err == nil && r.live == nil { // shadows are never fed
			r.b.feeds.note(id, number)
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
		if now-known.heard <= feedLife {
			continue
		}
		delete(t.frames.feeds, id)
		for i := range t.blocks.made.Load() {
			t.blocks.at[i].Load().feeds.forget(id)
		}
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
