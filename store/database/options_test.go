package database

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"testing"

	"github.com/dgraph-io/ristretto/v2/z"
)

var builders = regexp.MustCompile(`Tag: Builder Num: (\d+) Size: ([\d.]+) MiB`)

// TestTablesFitTheirBuffers: Badger keeps the buffers in which it builds tables, and a buffer that
// a table outgrew has three times the size. The values have the sizes of deltas, of checkpoints of
// 1,024 counters, and of names of as many pods' series.
func TestTablesFitTheirBuffers(t *testing.T) {
	for _, size := range []int{200, 5 << 10, 64 << 10} {
		found := buildTable(t, size)
		n, _ := strconv.ParseFloat(found[1], 64)
		if all, _ := strconv.ParseFloat(found[2], 64); all > 8*n {
			t.Errorf("values of %d bytes: %s", size, found[0])
		}
	}
}

// buildTable has a database build tables until one's buffers are found, which Badger frees two
// seconds after their use. It returns their number and their size.
func buildTable(t *testing.T, size int) (found []string) {
	t.Helper()
	db, err := openLocal(processOptions(t.TempDir(), quiet), quiet)
	must(t, err)
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	value := make([]byte, size)
	number := uint64(0)
	eventually(t, "the buffers of a table", func() bool {
		before := manifestSize(t, db)
		for range 3 * processMemTableBytes / 2 / size {
			mustWrite(t, db, string(binary.BigEndian.AppendUint64([]byte("key"), number)), value)
			number++
		}
		// Nothing else looks at a buffer while it is filled.
		eventually(t, "a table", func() bool { return manifestSize(t, db) > before })
		found = builders.FindStringSubmatch(z.Allocators())
		return found != nil
	})
	return found
}
