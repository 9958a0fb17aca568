package store

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
)

// A database is what a flush writes to: Badger in a process of its own (apart.go), or in this one.
type database interface {
	begin() transaction
	// sync returns when all that was committed is on the platter. It may be called while the flush writes, as may
	// renewCopy, which copies the manifest if it has changed. The error is errClosing while the database is closed.
	sync() error
	renewCopy() error
	// Close ends the use of it. Everything committed is on disk, if not on the platter, whether it succeeds or not.
	Close() error
}

// A transaction is written as a whole or not at all. Keys and values are the caller's again after Commit or Discard.
// Commit's error is errNoRoom where the disk has none for the logs.
type transaction interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	Commit() error
	Discard()
}

// here is Badger in this process.
type here struct {
	*badger.DB
	*upkeep
}

func (h here) begin() transaction { return hereTransaction{h.NewTransaction(true), h.upkeep} }

// Close implements database.
func (h here) Close() error { return errors.Join(h.DB.Close(), h.end()) }

type hereTransaction struct {
	*badger.Txn
	upkeep *upkeep
}

// Commit implements transaction.
func (t hereTransaction) Commit() error {
	if err := t.upkeep.reserve.renew(); err != nil {
		return err
	}
	return t.Txn.Commit()
}
