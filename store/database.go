package store

import "github.com/dgraph-io/badger/v4"

// A database is what a flush writes to: Badger in a process of its own (apart.go), or in this one.
type database interface {
	begin() transaction
	// Close ends the use of it. Everything committed is on disk, if not on the platter, whether it succeeds or not.
	Close() error
}

// A transaction is written as a whole or not at all. Keys and values are the caller's again after Commit or Discard.
type transaction interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	Commit() error
	Discard()
}

// here is Badger in this process.
type here struct{ *badger.DB }

func (h here) begin() transaction { return h.NewTransaction(true) }
