package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
	"github.com/sluice-metrics/sluice/store/wal"
)

// An Opener checks and opens the database of a data folder.
type Opener struct {
	Folder       *folder.Folder
	ProbeTimeout time.Duration
	Logger       *slog.Logger
}

// A Place is the process that has a database open.
type Place int

const (
	// InProcess: Opened.Local can be read.
	InProcess Place = iota
	// StorageProcess: the database can only be written to. Where the process can't be started, the
	// place is InProcess.
	StorageProcess
)

// Opened is an open database, and what had to be done for it.
type Opened struct {
	DB       DB
	Local    *Local // DB, if it is in this process
	Fresh    bool   // the database is a new one
	SetAside string // why a damaged database was set aside, and where it is; empty: none was
	Torn     string // the unfinished write that was left out; empty: there was none
}

// Open checks, probes and opens the database. A damaged one is set aside and a new one created.
// Folder.EndRestore must follow once the database has been restored from.
func (o *Opener) Open(ctx context.Context, place Place) (Opened, error) {
	fresh, torn, err := o.check()
	if err == nil && !fresh {
		err = o.probe(ctx)
		if errors.Is(err, errNotProbed) && ctx.Err() == nil {
			o.Logger.Warn("opening the database without a probe", "reason", err)
			err = nil
		}
		if err == nil {
			err = o.Folder.BeginRestore()
		}
	}
	if err == nil {
		opened, openErr := o.openChecked(fresh, place)
		if err = openErr; err == nil {
			if opened.Torn = torn; fresh {
				opened.SetAside = o.unreplaced()
			}
			return opened, nil
		}
	}
	if !errors.Is(err, format.ErrDamaged) {
		return Opened{}, err
	}
	return o.Replace(folder.Damaged, err, place)
}

// check compares the files of the database with what Badger left. fresh: there is none. torn: see
// wal.Check.
func (o *Opener) check() (fresh bool, torn string, err error) {
	fresh, err = CheckManifest(o.Folder.Database())
	if err != nil || fresh {
		return fresh, "", err
	}
	if err := wal.RemoveEmpty(o.Folder.Database()); err != nil {
		return false, "", err
	}
	torn, err = wal.Check(o.Folder.Database())
	return false, torn, err
}

// unreplaced says that there is no database because the last process was killed when it had set one aside, and before it
// had begun another one.
func (o *Opener) unreplaced() string {
	if name := o.Folder.WasSetAside(); name != "" {
		return "there was no database but the one that was set aside as " + name
	}
	return ""
}

// Reopen opens, without any check, a database that this process has just closed.
func (o *Opener) Reopen(place Place) (Opened, error) {
	dir := o.Folder.Database()
	if place == StorageProcess {
		db, err := startProcess(dir, o.Folder.LockFile(), o.Logger)
		if err == nil {
			return Opened{DB: db}, nil
		}
		if !errors.Is(err, errNotStarted) {
			return Opened{}, err
		}
		o.Logger.Warn("the database stays in this process, which a stalled or failing disk may stop or kill", "reason", err)
	}
	local, err := openLocal(localOptions(dir, o.Logger), o.Logger)
	if err != nil {
		return Opened{}, err
	}
	return Opened{DB: local, Local: local}, nil
}

// Replace sets the database aside, for a reason, and creates a new one.
func (o *Opener) Replace(suffix folder.Suffix, reason error, place Place) (Opened, error) {
	name, err := o.Folder.SetAside(suffix, time.Now())
	if err != nil {
		return Opened{}, errors.Join(reason, err)
	}
	opened, err := o.openChecked(true, place)
	opened.SetAside = fmt.Sprintf("%v; it was set aside as %s", reason, name)
	return opened, err
}

func (o *Opener) openChecked(fresh bool, place Place) (Opened, error) {
	if err := o.Folder.WriteMarker(); err != nil {
		return Opened{}, err
	}
	if err := durable.MkdirAll(o.Folder.Database(), 0o750); err != nil {
		return Opened{}, fmt.Errorf("store: cannot create the database's folder: %w", err)
	}
	opened, err := o.Reopen(place)
	if err != nil {
		return Opened{}, err
	}
	opened.Fresh = fresh
	if fresh {
		if err := wal.Sync(o.Folder.Database()); err != nil {
			return Opened{}, errors.Join(err, opened.DB.Close())
		}
	}
	return opened, nil
}

// openLocal opens a database that was checked, or creates one.
func openLocal(options badger.Options, logger *slog.Logger) (*Local, error) {
	c := &compactor{Logger: options.Logger}
	db, err := openUnlocked(options.WithLogger(c))
	if err != nil {
		return nil, fmt.Errorf("store: cannot open the database %s: %w", options.Dir, err)
	}
	c.db = db
	m := (*maintenance)(nil)
	err = checkVersion(db)
	if err == nil {
		m, err = beginMaintenance(options.Dir, c, logger)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Local{badger: db, maintenance: m}, nil
}

// lockTries and lockPause bound the wait for Badger's lock. Tries are counted, since a process that
// was suspended must not find that its time is over.
const (
	lockTries = 400
	lockPause = 5 * time.Millisecond
)

// openUnlocked opens a database and waits while it is locked. The data folder's own lock keeps
// other servers away. But a child that this process has just forked has copies of all descriptors
// until its exec, and with one of them the lock of a database that was closed meanwhile.
func openUnlocked(options badger.Options) (*badger.DB, error) {
	for tries := 1; ; tries++ {
		db, err := badger.Open(options)
		if err == nil || !strings.Contains(err.Error(), lockMessage) || tries == lockTries {
			return db, err
		}
		time.Sleep(lockPause)
	}
}

// lockMessage is in the error of a locked database, which wraps none.
const lockMessage = "Cannot acquire directory lock"

// checkVersion writes the format version into a new database, or into one of an older version, and
// checks it in any other.
func checkVersion(db *badger.DB) error {
	version, err := readVersion(db)
	if err != nil {
		return err
	}
	if !format.Readable(version) && version != 0 {
		return format.UnreadableVersion(db.Opts().Dir, version)
	}
	if version != format.Version {
		return db.Update(func(txn *badger.Txn) error {
			return txn.Set([]byte{format.PrefixVersion}, format.AppendVersion(nil))
		})
	}
	return nil
}

// readVersion is the format version in the database, 0 for an empty one.
func readVersion(db *badger.DB) (version uint32, err error) {
	from := (&Local{badger: db}).Read()
	defer from.Close()
	found, err := from.Get([]byte{format.PrefixVersion}, func(value []byte) (err error) {
		version, err = format.ParseVersion(value)
		return err
	})
	if err == nil && !found && from.Last(nil) != nil {
		err = format.Damaged("it has entries but no format version")
	}
	return version, err
}
