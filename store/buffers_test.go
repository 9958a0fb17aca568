package store

import (
	"encoding/binary"
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"
)

var builders = regexp.MustCompile(`Tag: Builder Num: (\d+) Size: ([\d.]+) MiB`)

// Badger keeps the buffers that it built tables in: one that a table outgrew has three times the size. Values are of the sizes
// that deltas, checkpoints of 1,024 counters, and names of as many pods' series have.
func TestTablesFitTheirBuffers(t *testing.T) {
	for _, size := range []int{200, 5 << 10, 64 << 10} {
		db, err := openDatabase(apartOptions(t.TempDir(), slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		value := make([]byte, size)
		for i := range 3 * apartMemTableBytes / 2 / size {
			key := binary.BigEndian.AppendUint64(nil, uint64(i))
			if err := db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) }); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(30 * time.Second); len(db.Tables()) == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // nothing else looks at a buffer while it is filled
		}
		found := builders.FindStringSubmatch(z.Allocators())
		if found == nil {
			t.Fatalf("values of %d bytes: no table was built: %q", size, z.Allocators())
		}
		n, _ := strconv.ParseFloat(found[1], 64)
		if all, _ := strconv.ParseFloat(found[2], 64); all > 8*n {
			t.Errorf("values of %d bytes: %s", size, found[0])
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
