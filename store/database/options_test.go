package database

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/dgraph-io/ristretto/v2/z"
)

var builders = regexp.MustCompile(`Tag: Builder Num: (\d+) Size: ([\d.]+) MiB`)

// TestTablesFitTheirBuffers: Badger keeps the buffers in which it builds tables, and a buffer that
// a table outgrew has three times the size. The values have the sizes of deltas, of checkpoints of
// 1,024 counters, and of names of as many pods' series.
func TestTablesFitTheirBuffers(t *testing.T) {
	for _, size := range []int{200, 5 << 10, 64 << 10} {
		var found []string
		// A buffer that is not used for two seconds is freed: the machine may be too slow to find it.
		for tries := 0; found == nil && tries < 10; tries++ {
			found = buildTable(t, size)
		}
		if found == nil {
			t.Fatalf("values of %d bytes: no table was built: %q", size, z.Allocators())
		}
		n, _ := strconv.ParseFloat(found[1], 64)
		if all, _ := strconv.ParseFloat(found[2], 64); all > 8*n {
			t.Errorf("values of %d bytes: %s", size, found[0])
		}
	}
}

// buildTable has a database build a table, and returns the number and the size of its buffers. Nil:
// there are none.
func buildTable(t *testing.T, size int) []string {
	t.Helper()
	db, err := openLocal(processOptions(t.TempDir(), quiet), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	value := make([]byte, size)
	for i := range 3 * processMemTableBytes / 2 / size {
		mustWrite(t, db, string(binary.BigEndian.AppendUint64([]byte("key"), uint64(i))), value)
	}
	for deadline := time.Now().Add(time.Minute); len(db.badger.Tables()) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // nothing else looks at a buffer while it is filled
	}
	return builders.FindStringSubmatch(z.Allocators())
}
