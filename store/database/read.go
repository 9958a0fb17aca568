package database

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
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
