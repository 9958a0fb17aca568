package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/durable"
)

// keepBlock writes the entries of a block that could not be restored to a file of the data directory, for the
// database will overwrite them: key and value in turn, each after its length as a big-endian uint32.
func (f *folder) keepBlock(db *badger.DB, block int, now time.Time) error {
	name := fmt.Sprintf("block-%d.damaged-%s", block, now.UTC().Format("20060102T150405Z"))
	file, err := os.Create(filepath.Join(f.dir, name))
	if err != nil {
		return fmt.Errorf("store: cannot keep a damaged block: %w", err)
	}
	out := bufio.NewWriter(file)
	err = db.View(func(txn *badger.Txn) error {
		for _, kind := range []byte{namesKey, checkpointKey, deltaKey} {
			key := blockKey(nil, kind, block)
			for _, prefix := range [][]byte{key, append([]byte{partKey}, key...)} {
				if err := writeEntries(out, txn, prefix); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return errors.Join(err, out.Flush(), file.Sync(), file.Close(), durable.Sync(f.dir))
}

func writeEntries(out *bufio.Writer, txn *badger.Txn, prefix []byte) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Seek(prefix); it.ValidForPrefix(prefix); it.Next() {
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		for _, piece := range [][]byte{it.Item().Key(), value} {
			if err := binary.Write(out, binary.BigEndian, uint32(len(piece))); err != nil {
				return err
			}
			if _, err := out.Write(piece); err != nil {
				return err
			}
		}
	}
	return nil
}
