package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// A reader reads the blobs of one block after the other. Its owner is one goroutine; what it returns is
// valid until the next block.
type reader struct {
	txn *badger.Txn
	buf []byte
}

// head reads a blob; found is false where there is none. An error after a found one is the blob's fault.
func (r *reader) head(key []byte) (h header, value []byte, found bool, err error) {
	item, err := r.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return header{}, nil, false, nil
	}
	if err != nil {
		return header{}, nil, false, err
	}
	h, value, err = r.blob(item, 0)
	return h, value, true, err
}

// blob reads an entry and, if its sequence is above a bound, its value.
func (r *reader) blob(item *badger.Item, above sequence) (h header, value []byte, err error) {
	err = item.Value(func(raw []byte) error {
		var inline []byte
		if h, inline, err = readHeader(raw); err != nil || h.seq <= above {
			return err
		}
		value = r.take(inline)
		return nil
	})
	if err != nil || h.seq <= above {
		return h, nil, err
	}
	if h.parts > 0 {
		if value, err = r.joinParts(item.Key(), h); err != nil {
			return h, nil, err
		}
	}
	if uint32(len(value)) != h.length || checksum(value) != h.sum {
		return h, nil, fmt.Errorf("entry %x: %d bytes that do not match their checksum", item.Key(), len(value))
	}
	return h, value, nil
}

// joinParts reads the parts of a value: all of them, and all of the head's sequence.
func (r *reader) joinParts(key []byte, h header) ([]byte, error) {
	r.buf = slices.Grow(r.buf, int(h.length))
	from := len(r.buf)
	for part := range int(h.parts) {
		item, err := r.txn.Get(appendPartKey(nil, key, h.generation, part))
		if err != nil {
			return nil, fmt.Errorf("entry %x: part %d of %d: %w", key, part, h.parts, err)
		}
		err = item.Value(func(raw []byte) error {
			if len(raw) < 8 || sequence(binary.BigEndian.Uint64(raw)) != h.seq {
				return fmt.Errorf("entry %x: part %d of %d is of another flush", key, part, h.parts)
			}
			r.buf = append(r.buf, raw[8:]...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return r.buf[from:len(r.buf):len(r.buf)], nil
}

// take copies a value out of the database's mapped memory.
func (r *reader) take(value []byte) []byte {
	from := len(r.buf)
	r.buf = append(r.buf, value...)
	return r.buf[from:len(r.buf):len(r.buf)]
}

// reset ends the life of what was returned.
func (r *reader) reset() { r.buf = r.buf[:0] }

// last is the highest block number among the keys of a kind, -1 if there are none.
func last(txn *badger.Txn, kind byte) int {
	it := txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: []byte{kind}})
	defer it.Close()
	it.Seek([]byte{kind, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	if !it.Valid() {
		return -1
	}
	block, ok := blockOf(it.Item().Key())
	if !ok {
		return -1
	}
	return block
}
