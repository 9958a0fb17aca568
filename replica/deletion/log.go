package deletion

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
)

// life is how long a replica may be away and still hear of a deletion.
const life = 24 * time.Hour

// Table deletes series.
type Table interface {
	// DeleteBorn deletes the series that a query selects and that were born before a moment, and
	// returns their number. Series of other replicas are not served from then on.
	DeleteBorn(q metric.Query, before time.Time) int
	// DeleteNamespace does the same for all series of a namespace.
	DeleteNamespace(namespace string, before time.Time) int
}

// A Log has the deletions of a day, of all replicas. It is safe for concurrent use.
type Log struct {
	origin string
	table  Table
	logger *slog.Logger

	removals atomic.Uint64 // of series, by deletions of other replicas

	early ratelog.Limiter // of deletions that are forgotten early

	mu      sync.Mutex
	byKey   map[Key]*deletion // guarded by mu
	kept    kept              // those of byKey; guarded by mu
	shared  map[Key]struct{}  // made here since the last TakeShared; guarded by mu
	changed map[Key]struct{}  // since the store's last call; guarded by mu
	pruned  time.Time         // guarded by mu
}

// A deletion is immutable, except its place.
type deletion struct {
	key      Key
	place    int // in kept; guarded by the Log's lock
	selector Selector
	stamp    int64 // Unix milliseconds, by the clock here
	origin   string
	made     int64     // the stamp by the origin's clock: with the origin it tells one deletion from another
	heard    time.Time // when it was made, heard of or restored here
}

// clocksDiffer is how far in the future a stamp may be: clocks differ, and two deletions of a millisecond have two stamps.
const clocksDiffer = 2 * time.Second

// present is the stamp that is compared with those of other deletions. If the clock was set back, the stamp itself may be
// in the future, and all later deletions of the selector would be, too.
func (d *deletion) present(now time.Time) int64 {
	return min(d.stamp, now.Add(clocksDiffer-now.Sub(d.heard)).UnixMilli())
}

// moment is the time before which the deleted series were born. It is never after the deletion became known here: Repeat
// would remove what was pushed since.
func (d *deletion) moment(now time.Time) time.Time {
	return time.UnixMilli(min(d.stamp, now.Add(-now.Sub(d.heard)).UnixMilli()))
}

// is reports whether another replica tells of a deletion that is known here, perhaps with another stamp: each replica that
// passes one on corrects that by what it makes of the other's clock.
func (d *deletion) is(o *deletion) bool { return d != nil && d.origin == o.origin && d.made == o.made }

func (d *deletion) before(o *deletion) bool {
	return cmp.Or(cmp.Compare(d.stamp, o.stamp), cmp.Compare(d.origin, o.origin)) < 0
}

// New returns an empty Log of a replica.
func New(origin string, table Table, logger *slog.Logger) *Log {
	return &Log{
		origin: origin, table: table, logger: logger, early: ratelog.Limiter{Interval: time.Minute},
		byKey: map[Key]*deletion{}, shared: map[Key]struct{}{}, changed: map[Key]struct{}{},
	}
}

// Add records that series were deleted here now. The selector is borrowed until Add returns.
func (l *Log) Add(s *Selector) { l.add(s, time.Now()) }

// AddNamespace records that a namespace ended: all of its series that were born before a moment are
// deleted.
func (l *Log) AddNamespace(name string, before time.Time) {
	l.add(&Selector{Namespace: name}, before)
}

func (l *Log) add(s *Selector, at time.Time) {
	now := time.Now()
	d := &deletion{selector: s.clone(), stamp: at.UnixMilli(), origin: l.origin, heard: now}
	key := d.selector.key()
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.byKey[key]; old != nil {
		d.stamp = max(d.stamp, old.present(now)+1)
	}
	d.made = d.stamp
	l.setLocked(key, d)
	l.changed[key], l.shared[key] = struct{}{}, struct{}{}
}

// Document is a deletion as replicas exchange it.
type Document struct {
	Key Key
	// Stamp is the time of the deletion, in Unix milliseconds. A receiver whose clock differs
	// corrects it.
	Stamp int64
	Value []byte
}

// TakeShared returns the deletions that were made here since the last call.
func (l *Log) TakeShared() (all []Document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.shared {
		if d := l.byKey[key]; d != nil {
			all = append(all, Document{key, d.present(time.Now()), d.appendShared(nil)})
		}
	}
	clear(l.shared)
	return all
}

// AllShared returns all deletions, of whichever replica.
func (l *Log) AllShared() []Document {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.pruneLocked(now)
	all := make([]Document, 0, len(l.byKey))
	for key, d := range l.byKey {
		all = append(all, Document{key, d.present(now), d.appendShared(nil)})
	}
	return all
}

// Apply deletes what was deleted at another replica. The order of documents doesn't matter, nor
// that one comes twice. The error is of one of the documents that were not applied.
func (l *Log) Apply(documents []Document) error {
	var first error
	for i := range documents {
		d, err := read(documents[i].Value)
		if err == nil && d.selector.key() != documents[i].Key {
			err = fmt.Errorf("%w: the key is of another deletion", errDocument)
		}
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		d.stamp = min(max(documents[i].Stamp, 1), latestStamp)
		l.apply(documents[i].Key, d)
	}
	return first
}

func (l *Log) apply(key Key, d *deletion) {
	now := time.Now()
	d.heard = now
	d.stamp = d.present(now)
	l.mu.Lock()
	old := l.byKey[key]
	news := (old == nil || !old.is(d) && (&deletion{stamp: old.present(now), origin: old.origin}).before(d)) && now.Sub(time.UnixMilli(d.stamp)) < life
	if news {
		l.setLocked(key, d)
		if d.origin == l.origin { // lost with a former process, after some of the others had heard of it
			l.shared[key] = struct{}{}
		}
	}
	l.mu.Unlock()
	if news {
		l.remove(d)
		l.mu.Lock()
		l.changed[key] = struct{}{} // by now: the document follows the removal
		l.mu.Unlock()
	}
}

func (l *Log) remove(d *deletion) {
	n, before := 0, d.moment(time.Now())
	if d.selector.wholeNamespace() {
		n = l.table.DeleteNamespace(d.selector.Namespace, before)
	} else {
		n = l.table.DeleteBorn(d.selector.Query(), before)
	}
	l.removals.Add(uint64(n))
}

// Repeat deletes again what was deleted: the table has got the series of an origin that is away.
func (l *Log) Repeat() {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.byKey))
	l.mu.Unlock()
	for _, d := range all {
		l.remove(d)
	}
}

func (l *Log) setLocked(key Key, d *deletion) {
	l.pruneLocked(time.Now())
	l.keepLocked(key, d)
	forgotten := false
	for over := l.kept.tooMuch(); over != nil; over = l.kept.tooMuch() {
		l.forgetLocked(over)
		forgotten = true
	}
	if !forgotten {
		return
	}
	if suppressed, ok := l.early.Allow(); ok {
		l.logger.Warn("deletions are forgotten early: a replica that is away may bring deleted series back",
			"kept", most, "bytes", mostBytes, "for", life, "suppressed", suppressed)
	}
}

// keepLocked keeps a deletion in the place of an older one.
func (l *Log) keepLocked(key Key, d *deletion) {
	if old := l.byKey[key]; old != nil {
		l.kept.remove(old)
	}
	d.key, l.byKey[key] = key, d
	l.kept.add(d)
}

func (l *Log) forgetLocked(d *deletion) {
	delete(l.byKey, d.key)
	l.kept.remove(d)
	l.changed[d.key] = struct{}{}
}

// pruneLocked forgets deletions that are over, and corrects stamps in the future, which the next process would take as they
// are on disk, once a minute at most.
func (l *Log) pruneLocked(now time.Time) {
	if now.Sub(l.pruned) < time.Minute {
		return
	}
	l.pruned = now
	for key, d := range l.byKey {
		moment := d.moment(now)
		if now.Sub(moment) >= life {
			l.forgetLocked(d)
		} else if at := moment.UnixMilli(); at < d.stamp {
			corrected := *d // Repeat may be reading d
			corrected.stamp = at
			l.keepLocked(key, &corrected)
			l.changed[key] = struct{}{}
		}
	}
}

// Removals is the number of series that were deleted because of another replica.
func (l *Log) Removals() uint64 { return l.removals.Load() }

// Following returns the documents of deletions that were made, heard of or forgotten since the last call, or of
// all; nil: it is forgotten. If one were on disk before its removal of series, a crash in between would bring
// the series back: a deletion that is known is not applied again.
func (l *Log) Following(all bool) map[Key][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pruneLocked(time.Now())
	if all {
		for key := range l.byKey {
			l.changed[key] = struct{}{}
		}
	}
	documents := make(map[Key][]byte, len(l.changed))
	for key := range l.changed {
		documents[key] = nil
		if d := l.byKey[key]; d != nil {
			documents[key] = d.append(nil)
		}
	}
	clear(l.changed)
	return documents
}

// RestoreDocument restores a document. The table was restored without what was deleted.
func (l *Log) RestoreDocument(key Key, value []byte) error {
	d, err := read(value)
	if err != nil {
		return err
	}
	if d.selector.key() != key {
		return fmt.Errorf("%w: the key is of another deletion", errDocument)
	}
	d.heard = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(key, d) // a former release kept more
	return nil
}
