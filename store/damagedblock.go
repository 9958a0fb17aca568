package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

// saveDamagedBlock writes the entries of a block that can't be restored to a file of the data
// folder, because the next checkpoint will overwrite them: keys and values in turn, each after its
// length as a big-endian uint32.
func saveDamagedBlock(dir string, from database.Reader, block int, now time.Time) error {
	name := fmt.Sprintf("block-%d.damaged-%s", block, now.UTC().Format("20060102T150405Z"))
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("store: cannot save a damaged block: %w", err)
	}
	out := bufio.NewWriter(file)
	save := func(key, value []byte) error { return errors.Join(writePiece(out, key), writePiece(out, value)) }
	for _, prefix := range []byte{format.PrefixNames, format.PrefixCheckpoint, format.PrefixDelta} {
		key := format.AppendBlockKey(nil, prefix, block)
		err = errors.Join(err, from.Each(key, save), from.Each(append([]byte{format.PrefixPart}, key...), save))
	}
	return errors.Join(err, out.Flush(), file.Sync(), file.Close(), durable.Sync(dir))
}

func writePiece(out *bufio.Writer, piece []byte) error {
	_, err := out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(piece))), piece...))
	return err
}
