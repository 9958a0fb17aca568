package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/store/format"
)

// Table is what is persisted, seen as blocks of series. What it appends is opaque to the store.
//
// The store calls all but RestoreBlock from one goroutine at a time, while others write to the table.
type Table interface {
	// Blocks is the number of blocks; they are 0 to Blocks()-1, and it only grows.
	Blocks() int
	// AppendDelta appends what changed in a block since its last AppendDelta: births, deaths, values. It
	// appends nothing where nothing changed. Replayed in order, on a state that may include it, it must
	// give the state after it.
	AppendDelta(dst []byte, block int) []byte
	// AppendState appends the whole of a block's values. It comes after an AppendDelta of the block.
	AppendState(dst []byte, block int) []byte
	// NamesChanged says whether AppendNames would append something new.
	NamesChanged(block int) bool
	// AppendNames appends the identities of a block's series. It comes after an AppendState of the block;
	// a series born in between is in the next delta too.
	AppendNames(dst []byte, block int) []byte
	// AppendClock appends what holds for all blocks. It is stored with every batch of them.
	AppendClock(dst []byte) []byte

	// RestoreClock comes first, unless the database is empty.
	RestoreClock(clock []byte) error
	// RestoreBlock restores one block; several goroutines call it for different blocks. names and state are
	// nil for a block that never had a checkpoint; deltas are those after it, in order. The bytes are the
	// table's until it returns.
	RestoreBlock(block int, names, state []byte, deltas [][]byte) error
	// RestoreDone comes last, also if there was nothing to restore.
	RestoreDone() error
}

// ErrNotPersisting: what was applied will not reach the disk for now. The message says why.
var ErrNotPersisting = errors.New("not persisting")

// Parts are what a store persists, and where it logs.
type Parts struct {
	Table     Table
	Documents Documents // nil: there are none
	Logger    *slog.Logger
}

// Store persists a table and documents. Make one with Open, run it with Run, end it with Close.
//
// The flush goroutine of Run owns db, flush, seq and what else has no other owner named.
type Store struct {
	cfg    Config
	logger *slog.Logger
	table  Table
	folder *folder
	free   func(dir string) (uint64, error)

	db          database   // nil: not persisting
	here        *badger.DB // what db is while it is restored from; nil: db is apart
	apart       bool       // the database is to be kept apart, once it is restored from
	flush       flush
	seq         format.Sequence
	periodStart time.Time
	retryAt     time.Time
	retryAfter  time.Duration
	urgent      bool // somebody waits for the flush that is under way
	ending      atomic.Bool
	unread      error // why what is in the folder may not be written to, but has to be set aside; nil: nothing is
	spent       bool  // a write failed: the database must be closed before it is written to again
	resync      bool  // a sync failed: one must succeed before the store is persisting again

	using sync.Mutex // guards used
	used  database   // db, for the syncing goroutine and who gives up

	kick   chan struct{} // wakes the flush goroutine
	groups groups
	status status
	count  counters

	syncing  sync.Mutex            // held during a sync, so that the next one knows how it ended
	unsynced atomic.Pointer[error] // how a sync failed; nil: none did since the database was last closed
	closed   atomic.Bool
	loops    sync.WaitGroup // Run's goroutines
}

// Open takes the data directory and restores the table from it. A database that cannot be trusted is renamed
// and a new one begun; Detail and the log say so. Its errors mean that the directory cannot be used as it is:
// ErrForeign, ErrFormat, ErrInUse, one of the file system, or the table's own.
func Open(ctx context.Context, cfg Config, parts Parts) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	folder, err := openFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, logger: parts.Logger, table: parts.Table, folder: folder, apart: canBeApart, free: freeBytes, kick: make(chan struct{}, 1)}
	s.groups.ready = make(chan struct{}, 1)
	s.init(parts.Documents)
	s.status.flushed(time.Now())
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.closeDatabase(), folder.release())
	}
	s.status.flushed(time.Now()) // nothing is applied before Open returns
	s.status.setSynced(time.Now())
	return s, nil
}

func (s *Store) init(documents Documents) {
	if documents == nil {
		documents = NoDocuments{}
	}
	s.flush.init(s.table, documents, min(s.cfg.FlushInterval/2, mostSpread), s.isUrgent)
	s.flush.batch.room = s.room
}

// start restores what there is.
func (s *Store) start(ctx context.Context) error {
	free, err := s.free(s.folder.dir)
	if err != nil {
		return err
	}
	if free < leastFreeBytes {
		return s.startFull(ctx, free)
	}
	start := time.Now()
	o, err := s.folder.open(ctx, s.cfg, false, s.logger)
	if err != nil {
		return errors.Join(err, s.folder.endOpening())
	}
	s.adopt(o)
	if err = s.restore(ctx); err == nil && s.apart {
		err = s.moveApart()
	}
	s.count.restoreNanos.Store(int64(time.Since(start)))
	return errors.Join(err, s.folder.endOpening())
}

// restore reads the open database into the table. One that turns out to be damaged is set aside.
func (s *Store) restore(ctx context.Context) error {
	err := s.restoreOpen(ctx)
	if errors.Is(err, format.ErrDamaged) {
		if err := s.exchange(err, false); err != nil {
			return err
		}
		err = s.restoreOpen(ctx)
	}
	return err
}

// restoreOpen reads the open database into the table. An error that is errDamaged came before the table was given anything.
func (s *Store) restoreOpen(ctx context.Context) error {
	out, err := s.readDatabase(ctx)
	if err != nil {
		return err
	}
	s.seq, s.flush.blocks = out.seq, out.blocks
	lost, err := s.restoreDocuments()
	if err != nil {
		return err
	}
	s.count.restoredBlocks.Store(int64(out.restored))
	s.count.failedBlocks.Store(int64(out.failed))
	s.count.cutBlocks.Store(int64(out.cut))
	if out.failed+out.cut+lost > 0 {
		notice := fmt.Sprintf("of %d blocks %d could not be restored and %d only to an earlier state, and %d documents could not",
			out.restored+out.failed, out.failed, out.cut, lost)
		s.status.notice(notice)
		s.logger.Error("restored with losses", "detail", notice)
	}
	return nil
}

// restoreDocuments reads the documents, after the table, and says how many could not be read.
func (s *Store) restoreDocuments() (lost int, err error) {
	from := beginRead(s.here)
	defer from.Close()
	restored, lost, err := s.flush.owed.restore(from, s.logger)
	s.count.restoredDocuments.Store(int64(restored))
	s.count.failedDocuments.Store(int64(lost))
	return lost, err
}

func (s *Store) readDatabase(ctx context.Context) (restored, error) {
	r := restore{db: s.here, table: s.table, logger: s.logger, keep: s.keepBlock}
	return r.run(ctx)
}

// moveApart gives the database that was restored from to a process of its own.
func (s *Store) moveApart() error {
	if err := s.closeDatabase(); err != nil {
		return err
	}
	o, err := s.folder.openDatabase(true, s.logger)
	if err != nil {
		return err
	}
	s.adopt(o)
	return nil
}

// exchange sets the open database aside as damaged and begins a new one.
func (s *Store) exchange(reason error, apart bool) error {
	return s.exchangeAs(untrusted, reason, apart)
}

func (s *Store) exchangeAs(what string, reason error, apart bool) error {
	if err := s.closeDatabase(); err != nil {
		s.logger.Warn("the damaged database did not close well", "error", err)
	}
	o, err := s.folder.replace(what, reason, apart, s.logger)
	if err != nil {
		return err
	}
	s.adopt(o)
	return nil
}

// adopt makes an opened database the store's own.
func (s *Store) adopt(o opened) {
	s.here = o.here
	s.use(o.db)
	if o.aside != "" {
		what := "started empty"
		if s.unread != nil { // what was there may have been restored from, or all that is there came since
			what = "began a new database"
		}
		s.status.notice(what + ": " + o.aside)
		s.count.setAside.Add(1)
		s.logger.Error(what, "reason", o.aside)
	}
	if o.torn != "" {
		s.status.notice(o.torn)
		s.logger.Warn("the last process did not finish a write", "detail", o.torn)
	}
	if o.fresh {
		s.flush.forget()
	}
}

// use makes a database, or none, the one in use.
func (s *Store) use(db database) {
	s.using.Lock()
	defer s.using.Unlock()
	s.db, s.used = db, db
}

// inUse is for those who do not own db.
func (s *Store) inUse() database {
	s.using.Lock()
	defer s.using.Unlock()
	return s.used
}

func (s *Store) keepBlock(block int) {
	from := beginRead(s.here)
	defer from.Close()
	if err := s.folder.keepBlock(from, block, time.Now()); err != nil {
		s.logger.Error("a damaged block could not be kept", "block", block, "error", err)
	}
}

// closeDatabase closes Badger, which writes its memtable. A panic of it is an error here.
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
	s.here = nil
	s.use(nil)
	closing := db.Close()
	s.giveUpLogs(closing)
	if closing != nil {
		return fmt.Errorf("store: closing the database: %w", closing)
	}
	return nil
}

// leave ends the use of the database. Without room for what closing it writes, it is left as a killed process
// would: all is in its logs, which are synced.
func (s *Store) leave() error {
	if s.db == nil {
		return nil
	}
	_, off, _ := s.status.read()
	free, err := s.free(s.folder.dir)
	if off == "" && err == nil && free >= leastFreeBytes {
		return s.closeDatabase()
	}
	if off == "" {
		off = fmt.Sprintf("the disk has %s free (%v)", mebibytes(free), err)
	}
	s.logger.Warn("the database is left unclosed, which costs nothing but time at the next start", "reason", off)
	if a, ok := s.db.(*apart); ok {
		a.kill()
	}
	s.here = nil
	s.use(nil)
	return syncDatabase(s.folder.database())
}
