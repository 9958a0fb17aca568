package database

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
)

// A DB is a database to write to: a Local or a Process. One goroutine owns it, with the exceptions
// named below.
type DB interface {
	// Begin begins a transaction. There is one at a time.
	Begin() Transaction
	// Compact begins to compact all tables, where new ones have come since the last compaction and none
	// is running. It doesn't wait for the end. Without commits, nothing else frees obsolete data's space.
	Compact() error
	// Sync returns when all that was committed is on stable storage. Any goroutine may call it at
	// any time. Its error is ErrClosed once the database is being closed.
	Sync() error
	// Close closes the database. All that was committed has reached the kernel, even if Close
	// fails.
	Close() error
	// Kill kills the storage process, with the database unclosed, and waits for its end. A Local
	// stays as it is.
	Kill()
	// Abandon kills the storage process and doesn't wait for its end, which a stalled disk may
	// delay. Any goroutine may call it.
	Abandon()
}

// A Transaction is written as a whole or not at all. Keys and values belong to the caller again
// after Commit or Discard.
type Transaction interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	// Commit's error is ErrDiskFull where the disk has no space for the logs; then nothing was
	// written.
	Commit() error
	Discard()
}

var (
	// ErrClosed: the database is being closed or replaced. The data may be in the next one.
	ErrClosed = errors.New("the database is being closed")
	// ErrDiskFull: a write could meet a full disk.
	ErrDiskFull = errors.New("the disk is too full")
	// ErrDied: the storage process has ended. The kernel has all that it wrote.
	ErrDied = errors.New("the storage process ended")
)

// A Local is Badger in this process. It implements DB; one that was opened for reading alone must
// not be written to.
type Local struct {
	badger      *badger.DB
	maintenance *maintenance // nil: opened for reading
}

// Begin implements DB.
func (l *Local) Begin() Transaction {
	return localTransaction{l.badger.NewTransaction(true), l.maintenance}
}

// Compact implements DB.
func (l *Local) Compact() error {
	l.maintenance.compactor.begin(true)
	return nil
}

// Sync implements DB.
func (l *Local) Sync() error { return l.maintenance.sync() }

// Close implements DB.
func (l *Local) Close() error {
	if l.maintenance == nil {
		return l.badger.Close()
	}
	l.maintenance.stop()
	return errors.Join(l.badger.Close(), l.maintenance.end())
}

// Kill implements DB.
func (l *Local) Kill() {}

// Abandon implements DB.
func (l *Local) Abandon() {}

type localTransaction struct {
	*badger.Txn
	maintenance *maintenance
}

// Commit implements Transaction.
func (t localTransaction) Commit() error {
	if err := t.maintenance.logs.preallocate(); err != nil {
		return err
	}
	if err := t.Txn.Commit(); err != nil {
		return err
	}
	t.maintenance.committed()
	return nil
}
