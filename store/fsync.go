package store

import (
	"errors"
	"fmt"
	"time"
)

// After a failed fsync the kernel may drop what it could not write, and the next fsync succeeds without it (fsync(2)). So
// no sync follows a failed one. The flush goroutine closes the database, which writes its memtable into a new file, and
// opens it again; the store persists again once a sync of that has succeeded.

// errUnsynced: an earlier sync failed, and the logs have not been given up yet.
var errUnsynced = errors.New("the database's logs are given up after a failed sync")

// syncOnce syncs for all whose flush is done.
func (s *Store) syncOnce() error {
	members := s.groups.takeFlushed()
	err := s.syncLogs()
	if errors.Is(err, errClosing) || errors.Is(err, errUnsynced) {
		for _, m := range members {
			m.end(fmt.Errorf("store: %w: %w", ErrNotPersisting, err))
		}
		if errors.Is(err, errClosing) {
			return nil
		}
		return err
	}
	s.count.syncs.Add(1)
	if err != nil {
		s.count.failures.Add(1)
		s.logger.Error("the database could not be synced", "error", err)
		s.status.setOff(err.Error())
	}
	for _, m := range members {
		m.end(err)
	}
	return err
}

// syncLogs syncs the database in use, unless a sync failed before. Between two databases there is none.
func (s *Store) syncLogs() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if before := s.unsynced.Load(); before != nil {
		return fmt.Errorf("%w: %w", errUnsynced, *before)
	}
	db, began := s.inUse(), time.Now()
	if db == nil {
		return errClosing
	}
	err := db.sync()
	switch {
	case err == nil:
		s.status.setSynced(began)
	case !errors.Is(err, errClosing):
		s.unsynced.Store(&err)
	}
	return err
}

// giveUpLogs says that the logs of a failed sync are no longer needed: the database has been closed. One that did not
// close well still has them, and must be opened and closed once more; unless the sync failed because
// the database's process had died, after which the kernel still has all that was written.
func (s *Store) giveUpLogs(closing error) {
	failed := s.unsynced.Load()
	if closing == nil || failed != nil && errors.Is(*failed, errDied) {
		s.unsynced.Store(nil)
	}
}
