package store

import (
	"context"
	"errors"
	"fmt"
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

func open(ctx context.Context, cfg Config, parts Parts, place database.Place, freeBytes func(string) (uint64, error)) (*Store, error) {
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
		cfg: cfg, logger: parts.Logger, table: parts.Table, folder: f, place: place, freeBytes: freeBytes, watchInterval: defaultWatchInterval,
		opener:    database.Opener{Folder: f, ProbeTimeout: cfg.ProbeTimeout, Logger: parts.Logger},
		wakeFlush: make(chan struct{}, 1),
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
	s.status.setSynced(time.Now())
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
