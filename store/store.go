package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
	"github.com/sluice-metrics/sluice/store/wal"
)

// ErrNotPersisting: applied samples won't reach the disk for now. The message says why.
var ErrNotPersisting = errors.New("not persisting")

// Parts are what a store persists, and where it logs.
type Parts struct {
	Table     Table
	Documents Documents // nil: there are none
	Publisher Publisher // nil: there is none
	Logger    *slog.Logger
}

// Store persists a table and documents. Make one with Open, run it with Run, end it with Close.
//
// The flush goroutine of Run owns the fields without another owner named.
type Store struct {
	cfg           Config
	logger        *slog.Logger
	table         Table
	folder        *folder.Folder
	opener        database.Opener
	place         database.Place // of the database, once it has been restored from
	freeBytes     func(dir string) (uint64, error)
	watchInterval time.Duration

	db          database.DB     // nil: not persisting
	local       *database.Local // db while it is restored from; nil where another process has the database
	flusher     flusher
	seq         format.Sequence
	periodStart time.Time
	retryAt     time.Time
	retryAfter  time.Duration
	hadSpace    time.Time   // when a look at the disk last found space enough
	urgent      bool        // a caller of Sync or FlushSoon waits for the flush under way
	soon        atomic.Bool // FlushSoon was called since the last flush began
	ending      atomic.Bool
	unrestored  error // why the database in the folder must be set aside before the next write; nil: it need not be
	mustReopen  bool  // a write failed: the database must be closed before the next one
	mustSync    bool  // a sync failed: one must succeed before the store persists again

	sharing  sync.Mutex  // guards sharedDB
	sharedDB database.DB // db, for the syncing goroutine and for Close

	wakeFlush chan struct{}
	syncs     syncGroups
	status    status
	count     counters

	syncing    sync.Mutex            // held during a sync, so the next one knows its result
	syncFailed atomic.Pointer[error] // how a sync failed; nil: none did since the database was last closed
	closed     atomic.Bool
	loops      sync.WaitGroup // Run's goroutines
}

// ChildMain runs the probe or the storage process if this process was started as one. It is the
// first call of main:
//
//	if code, isChild := store.ChildMain(); isChild {
//		os.Exit(code)
//	}
//
// Without it, databases are opened without a probe, and in this process.
func ChildMain() (code int, isChild bool) { return database.ChildMain() }

// CheckFolder reports what would stop Open: a folder that isn't ours, or in use. It changes
// nothing, and Open checks again.
func CheckFolder(dir string) error { return folder.Check(dir) }

// ReadReplicaName returns the name of the replica whose data the folder holds; empty: the folder
// names none.
func ReadReplicaName(dir string) (string, error) { return folder.ReadReplicaName(dir) }

// WriteReplicaName records the name of the replica that counts in the data folder from now on.
func (s *Store) WriteReplicaName(name string) error { return s.folder.WriteReplicaName(name) }

// Open locks the data folder and restores the table from it. A database that can't be trusted is
// renamed and a new one created; Detail and the log say so. An error means that the folder can't be
// used as it is: folder.ErrForeign, folder.ErrInUse, format.ErrVersion, one of the file system, or
// the table's own.
func Open(ctx context.Context, cfg Config, parts Parts) (*Store, error) {
	return open(ctx, cfg, parts, database.DefaultPlace(), database.FreeBytes)
}

func open(ctx context.Context, cfg Config, parts Parts, place database.Place,
	freeBytes func(string) (uint64, error)) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f, err := folder.Open(cfg.Dir)
	if err != nil {
		return nil, err
	}
	documents := parts.Documents
	if documents == nil {
		documents = NoDocuments{}
	}
	s := &Store{
		cfg: cfg, logger: parts.Logger, table: parts.Table, folder: f, place: place, freeBytes: freeBytes,
		watchInterval: defaultWatchInterval,
		opener:        database.Opener{Folder: f, ProbeTimeout: cfg.ProbeTimeout, Logger: parts.Logger},
		wakeFlush:     make(chan struct{}, 1),
	}
	s.syncs.ready = make(chan struct{}, 1)
	s.status.lateAfter = defaultLateAfter
	s.flusher.init(s.table, documents, min(cfg.FlushInterval/2, maxSpread), s.isUrgent)
	s.flusher.batch.checkSpace = s.checkSpace
	s.status.flushed(time.Now())
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.closeDatabase(), f.Release())
	}
	if parts.Publisher != nil {
		s.flusher.publisher = newBlockPublisher(parts.Publisher, cfg.FlushInterval, s.flusher.pacer)
	}
	s.status.flushed(time.Now()) // nothing is applied before Open returns
	s.status.setSynced(time.Now(), time.Now())
	return s, nil
}

// adopt makes an opened database the store's own.
func (s *Store) adopt(opened database.Opened) {
	s.local = opened.Local
	s.setDatabase(opened.DB)
	if opened.SetAside != "" {
		what := "started empty"
		if s.unrestored != nil { // part of it may have been restored, or samples came since
			what = "began a new database"
		}
		s.status.notice(what + ": " + opened.SetAside)
		s.count.setAside.Add(1)
		s.logger.Error(what, "reason", opened.SetAside)
	}
	if opened.Torn != "" {
		s.status.notice(opened.Torn)
		s.logger.Warn("the last process did not finish a write", "detail", opened.Torn)
	}
	if opened.Fresh {
		s.flusher.writeAll()
	}
}

// replaceDatabase sets the database aside and begins a new one.
func (s *Store) replaceDatabase(suffix folder.Suffix, reason error, place database.Place) error {
	var opened database.Opened
	err := s.flusher.await(func() (err error) {
		if err := s.closeDatabase(); err != nil {
			s.logger.Warn("the damaged database did not close well", "error", err)
		}
		opened, err = s.opener.Replace(suffix, reason, place)
		return err
	})
	if err != nil {
		return err
	}
	s.adopt(opened)
	return nil
}

// setDatabase sets the open database, nil for none.
func (s *Store) setDatabase(db database.DB) {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	s.db, s.sharedDB = db, db
}

// sharedDatabase is the open database, for goroutines that don't own db.
func (s *Store) sharedDatabase() database.DB {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	return s.sharedDB
}

// closeDatabase closes Badger, which writes its memtable. It turns a panic of Badger's into an
// error.
func (s *Store) closeDatabase() (err error) {
	if s.db == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: closing the database: panic: %v", p)
		}
	}()
	db := s.db
	s.local = nil
	s.setDatabase(nil)
	closeErr := db.Close()
	s.forgetFailedSync(closeErr)
	if closeErr != nil {
		return fmt.Errorf("store: closing the database: %w", closeErr)
	}
	return nil
}

// endDatabase closes the database at the end. Where the disk lacks space for the table that closing
// writes, the database is left as a killed process would leave it: all data is in its logs, which
// are synced.
func (s *Store) endDatabase() error {
	if s.db == nil {
		return nil
	}
	why := s.status.notPersisting()
	free, err := s.freeBytes(s.folder.Dir)
	if why == "" && err == nil && free >= database.LeastFreeBytes {
		return s.closeDatabase()
	}
	if why == "" {
		why = fmt.Sprintf("the disk has %s free (%v)", mebibytes(free), err)
	}
	s.logger.Warn("the database is left unclosed, which only makes the next start slower", "reason", why)
	s.db.Kill()
	s.local = nil
	s.setDatabase(nil)
	return wal.Sync(s.folder.Database())
}

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }

// Table is persisted, as blocks of series. The bytes that it appends are opaque to the store.
//
// The store calls all methods but RestoreBlock from one goroutine at a time, while others write to
// the table.
type Table interface {
	// Blocks is the number of blocks. They are numbered from 0; the number only grows.
	Blocks() int
	// AppendDelta appends what changed in a block since its last AppendDelta: births, deaths,
	// values. It appends nothing where nothing changed. Deltas are replayed in order, possibly on a
	// state that includes them already, and must give the state after them.
	AppendDelta(dst []byte, block int) []byte
	// AppendPublished is AppendDelta for the Publisher alone. The next write of the block is an AppendState.
	AppendPublished(dst []byte, block int) []byte
	// AppendState appends all of a block's values. It follows an AppendDelta of the block.
	AppendState(dst []byte, block int) []byte
	// NamesChanged reports whether AppendNames would append anything new: series were born or died since it
	// last did, or in a delta that the block was restored from.
	NamesChanged(block int) bool
	// AppendNames appends the identities of a block's series. It follows an AppendState of the
	// block; a series born in between is also in the next delta.
	AppendNames(dst []byte, block int) []byte
	// AppendClock appends the state common to all blocks. It is written with every transaction.
	AppendClock(dst []byte) []byte

	// RestoreClock comes first, unless the database is empty.
	RestoreClock(clock []byte) error
	// RestoreBlock restores one block; several goroutines call it, each for other blocks. names and
	// state are nil for a block without a checkpoint; deltas are those after the checkpoint, in
	// order. The bytes belong to the table until it returns, those of a delta until the next one.
	RestoreBlock(block int, names, state []byte, deltas iter.Seq[[]byte]) error
	// RestoreDone comes last, even if there was nothing to restore.
	RestoreDone() error
}

// DocumentKey identifies a document: a hash of its name, which the document itself contains in
// full.
type DocumentKey [16]byte

// Documents are persisted beside the table, each as a whole. The bytes that they append are opaque
// to the store.
//
// The store calls them from one goroutine at a time, while others change them.
type Documents interface {
	// Changed returns the documents that were created, changed or deleted since the last call; or
	// all documents.
	Changed(all bool) []DocumentKey
	// AppendDocument appends a document in its present state. ok is false if the document is gone.
	AppendDocument(dst []byte, key DocumentKey) (value []byte, ok bool)
	// Following returns, as Changed does, documents that say what was done to the table or to other documents,
	// with their present values; nil: it is gone. It is called before a flush takes anything, and they are
	// written after everything (S7).
	Following(all bool) map[DocumentKey][]byte
	// RestoreDocument restores a document. It comes after the table's RestoreDone. The bytes belong
	// to it until it returns.
	RestoreDocument(key DocumentKey, value []byte) error
}

// NoDocuments are no documents.
type NoDocuments struct{}

// Changed implements Documents.
func (NoDocuments) Changed(bool) []DocumentKey { return nil }

// AppendDocument implements Documents.
func (NoDocuments) AppendDocument(dst []byte, _ DocumentKey) ([]byte, bool) { return dst, false }

// Following implements Documents.
func (NoDocuments) Following(bool) map[DocumentKey][]byte { return nil }

// RestoreDocument implements Documents.
func (NoDocuments) RestoreDocument(DocumentKey, []byte) error { return nil }
