package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/durable"
	"github.com/sluice-metrics/sluice/store/format"
)

// maxOpenings is how often the process may die between opening a database and having restored from it. The
// trial catches what the database does; this catches what the restored would do. A death before the trial has ended
// is not counted: nothing of the database has been used by then. An end that was asked for is not counted either.
// A kill later on is: nothing tells one of the OOM killer, which the restored may cause, from any other.
const maxOpenings = 3

// opened is a database, and what had to be done for it.
type opened struct {
	db    database
	here  *badger.DB // db, if it is in this process
	fresh bool
	aside string // why and where a database was set aside; empty: none was
	torn  string // what a write that did not end left behind; empty: nothing
}

// open checks, tries and opens the database: here, or apart. One that cannot be trusted is set aside and a new one made.
// endOpening must follow when what was opened has been restored from.
func (f *folder) open(ctx context.Context, cfg Config, apart bool, logger *slog.Logger) (opened, error) {
	torn := ""
	fresh, err := checkManifest(f.database())
	if err == nil && !fresh {
		if err = removeEmptyLogs(f.database()); err == nil {
			torn, err = checkLogs(f.database())
		}
		if err == nil {
			err = f.try(ctx, cfg.TrialTimeout)
		}
		if errors.Is(err, errUntried) && ctx.Err() == nil {
			logger.Warn("opening the database without a trial", "reason", err)
			err = nil
		}
		if err == nil {
			err = f.beginOpening()
		}
	}
	if err == nil {
		o, openErr := f.openChecked(fresh, apart, logger)
		if err = openErr; err == nil {
			o.torn = torn
			return o, nil
		}
	}
	if !errors.Is(err, format.ErrDamaged) {
		return opened{}, err
	}
	return f.replace(untrusted, err, apart, logger)
}

// replace sets the database aside as what it is, for a reason, and makes a new one.
func (f *folder) replace(what string, reason error, apart bool, logger *slog.Logger) (opened, error) {
	name, err := f.setAside(what, time.Now())
	if err != nil {
		return opened{}, errors.Join(reason, err)
	}
	o, err := f.openChecked(true, apart, logger)
	o.aside = fmt.Sprintf("%v; it was set aside as %s", reason, name)
	return o, err
}

func (f *folder) openChecked(fresh, apart bool, logger *slog.Logger) (opened, error) {
	if err := f.mark(); err != nil {
		return opened{}, err
	}
	if err := durable.MkdirAll(f.database(), 0o750); err != nil {
		return opened{}, fmt.Errorf("store: cannot make the database's folder: %w", err)
	}
	o, err := f.openDatabase(apart, logger)
	if err != nil {
		return opened{}, err
	}
	o.fresh = fresh
	if fresh {
		if err := syncDatabase(f.database()); err != nil {
			return opened{}, errors.Join(err, o.db.Close())
		}
	}
	return o, nil
}

func (f *folder) openDatabase(apart bool, logger *slog.Logger) (opened, error) {
	if apart {
		db, err := openApart(f.database(), f.lock, logger)
		if err == nil {
			return opened{db: db}, nil
		}
		if !errors.Is(err, errUnstarted) {
			return opened{}, err
		}
		logger.Warn("the database is kept in this process: a disk that stands still or breaks may stop it", "reason", err)
	}
	db, err := openDatabase(badgerOptions(f.database(), logger))
	if err != nil {
		return opened{}, err
	}
	up, err := beginUpkeep(f.database(), logger)
	if err != nil {
		return opened{}, errors.Join(err, db.Close())
	}
	return opened{db: here{db, up}, here: db}, nil
}

// beginOpening counts an opening that has not ended yet.
func (f *folder) beginOpening() error {
	path := filepath.Join(f.dir, openingName)
	text, _ := os.ReadFile(path)
	before, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if before >= maxOpenings {
		return format.Damaged("the process died %d times while it restored from it", before)
	}
	if err := durable.WriteFile(path, strconv.AppendInt(nil, int64(before+1), 10), 0o640); err != nil {
		return fmt.Errorf("store: cannot write to the data directory: %w", err)
	}
	return nil
}

// endOpening says that the opening ended well, or by an error that the process survived.
func (f *folder) endOpening() error {
	err := os.Remove(filepath.Join(f.dir, openingName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: cannot write to the data directory: %w", err)
	}
	return nil
}
