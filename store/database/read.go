package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store/format"
	"github.com/sluice-metrics/sluice/store/wal"
)

// A Reader is a read transaction: a snapshot of the database. One goroutine owns it; a Local may
// have many.
type Reader struct{ txn *badger.Txn }

// Read begins a read transaction.
func (l *Local) Read() Reader { return Reader{l.badger.NewTransaction(false)} }

// Close ends the transaction.
func (r Reader) Close() { r.txn.Discard() }

// Get implements format.Source.
func (r Reader) Get(key []byte, use func(value []byte) error) (found bool, err error) {
	item, err := r.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, item.Value(use)
}

// Each passes all entries whose keys have a prefix to visit, in the order of the keys. visit must
// not keep them.
func (r Reader) Each(prefix []byte, visit func(key, value []byte) error) error {
	it := r.txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
		item := it.Item()
		if err := item.Value(func(value []byte) error { return visit(item.Key(), value) }); err != nil {
			return err
		}
	}
	return nil
}

// Last returns the highest key with a prefix, or nil where there is none.
func (r Reader) Last(prefix []byte) []byte {
	it := r.txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: prefix})
	defer it.Close()
	it.Seek(append(append([]byte(nil), prefix...), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
	if !it.Valid() {
		return nil
	}
	return it.Item().KeyCopy(nil)
}

// ErrUnreadable: the database can't be read without writing to the disk, which is full.
var ErrUnreadable = errors.New("the database cannot be read without free space")

// OpenReadOnly checks, probes and opens the database as Open does, but writes nothing; it only cuts
// the logs where the last transaction ends, as Badger would. It returns nil where there is no
// database. There is no space for a scratch copy, so the probe opens the database itself, for
// reading alone.
//
// Badger doesn't unmap the logs of such a database, so their space, some 8 MiB each, is free only
// when this process ends.
func (o *Opener) OpenReadOnly(ctx context.Context) (*Local, error) {
	fresh, torn, err := o.check()
	if err == nil && fresh {
		return nil, nil
	}
	if torn != "" {
		o.Logger.Warn("the last process did not finish a write", "detail", torn)
	}
	if err == nil {
		err = wal.Cut(o.Folder.Database())
	}
	if err == nil {
		err = o.probeReadOnly(ctx)
	}
	if err == nil {
		if err = o.Folder.BeginRestore(); durable.IsFull(err) {
			err = nil // no space to count deaths of the process: the probe must suffice
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, format.ErrVersion) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	db, err := badger.Open(readOnlyOptions(o.Folder.Database()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return &Local{badger: db}, nil
}
