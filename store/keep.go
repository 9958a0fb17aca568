package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-metrics/sluice/durable"
	"github.com/sluice-metrics/sluice/store/format"
)

// keepBlock writes the entries of a block that could not be restored to a file of the data directory, for the
// database will overwrite them: key and value in turn, each after its length as a big-endian uint32.
func (f *folder) keepBlock(from readTxn, block int, now time.Time) error {
	name := fmt.Sprintf("block-%d.damaged-%s", block, now.UTC().Format("20060102T150405Z"))
	file, err := os.Create(filepath.Join(f.dir, name))
	if err != nil {
		return fmt.Errorf("store: cannot keep a damaged block: %w", err)
	}
	out := bufio.NewWriter(file)
	for _, prefix := range []byte{format.PrefixNames, format.PrefixCheckpoint, format.PrefixDelta} {
		key := format.AppendBlockKey(nil, prefix, block)
		for _, prefix := range [][]byte{key, append([]byte{format.PrefixPart}, key...)} {
			err = errors.Join(err, from.Each(prefix, func(key, value []byte) error { return saveEntry(out, key, value) }))
		}
	}
	return errors.Join(err, out.Flush(), file.Sync(), file.Close(), durable.Sync(f.dir))
}

func saveEntry(out *bufio.Writer, key, value []byte) error {
	for _, piece := range [][]byte{key, value} {
		if err := binary.Write(out, binary.BigEndian, uint32(len(piece))); err != nil {
			return err
		}
		if _, err := out.Write(piece); err != nil {
			return err
		}
	}
	return nil
}
