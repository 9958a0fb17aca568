package database

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"
	"github.com/sluice-metrics/sluice/store/wal"
	"golang.org/x/sys/unix"
)

// TestManifestCopyFollowsCommits: a commit after a new table brings the manifest's copy up to date,
// without a sync.
func TestManifestCopyFollowsCommits(t *testing.T) {
	t.Parallel()
	db := openSmall(t)
	fillTables(t, db, 1)
	eventually(t, "the copy of a manifest with a table", func() bool {
		mustWrite(t, db, "later", nil)
		return len(db.badger.Tables()) > 0 && manifestIsCopied(t, db)
	})
}

// TestCommitBesideAStalledCopy: commits are answered while the copy of the manifest waits for the
// disk. Once the disk answers, the database closes and the copy is complete.
func TestCommitBesideAStalledCopy(t *testing.T) {
	t.Parallel()
	db := openSmall(t)
	db.maintenance.mu.Lock() // as a copy that waits for the disk holds it
	fillTables(t, db, 3)
	if manifestIsCopied(t, db) {
		t.Fatal("the manifest was copied")
	}
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("closed beside a copy that waits: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	db.maintenance.mu.Unlock()
	must(t, <-closed)
	if !manifestIsCopied(t, db) {
		t.Fatal("Close did not copy the manifest")
	}
}

// TestSyncCopiesTheManifest: a copy that failed is made up for by the next sync.
func TestSyncCopiesTheManifest(t *testing.T) {
	t.Parallel()
	db := openSmall(t)
	db.maintenance.stop() // as where the copy after the commit has failed
	fillTables(t, db, 1)
	if manifestIsCopied(t, db) {
		t.Fatal("the manifest was copied before the sync")
	}
	eventually(t, "a sync that copies the manifest", func() bool {
		must(t, db.Sync())
		return manifestIsCopied(t, db)
	})
}

// openSmall opens a database with the options of the storage process, but small tables.
func openSmall(t *testing.T) *Local {
	t.Helper()
	return openSmallWith(t, func(options badger.Options) badger.Options { return options })
}

// openSmallWith is openSmall with changed options.
func openSmallWith(t *testing.T, change func(badger.Options) badger.Options) *Local {
	t.Helper()
	options := processOptions(t.TempDir(), quiet).
		WithMemTableSize(smallTableBytes).
		WithBaseTableSize(smallTableBytes).
		WithBlockSize(4 << 10).
		WithValueThreshold(smallTableBytes / 8)
	db, err := openLocal(change(options), quiet)
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

const smallTableBytes = 128 << 10

// fillTables writes the same keys again and again until level zero has n more tables.
func fillTables(t *testing.T, db *Local, n int) {
	t.Helper()
	fillTablesFrom(t, db, n, 0)
}

// fillTablesFrom is fillTables with keys from a number on.
func fillTablesFrom(t *testing.T, db *Local, n int, first uint64) {
	t.Helper()
	value := make([]byte, smallTableBytes/16)
	for range n {
		manifest := manifestSize(t, db)
		for i := uint64(0); manifestSize(t, db) == manifest; i++ {
			if i > 10_000 {
				t.Fatal("no table was made")
			}
			mustWrite(t, db, string(binary.BigEndian.AppendUint64([]byte("key"), first+i%16)), value)
		}
	}
}

func manifestSize(t *testing.T, db *Local) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(db.badger.Opts().Dir, badger.ManifestFilename))
	must(t, err)
	return info.Size()
}

func manifestIsCopied(t *testing.T, db *Local) bool {
	t.Helper()
	dir := db.badger.Opts().Dir
	manifest, err := os.ReadFile(filepath.Join(dir, badger.ManifestFilename))
	must(t, err)
	saved, err := os.ReadFile(filepath.Join(dir, copyName))
	must(t, err)
	return bytes.Equal(manifest, saved)
}

// eventually waits for something, for a minute at most.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A database whose lock is held for a moment more is opened.
func TestOpenWaitsForALock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := openLocal(localOptions(dir, quiet), quiet)
	must(t, err)
	must(t, db.Close())
	held, err := os.Open(dir)
	must(t, err)
	must(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	time.AfterFunc(10*lockPause, func() { _ = held.Close() })
	db, err = openLocal(localOptions(dir, quiet), quiet)
	must(t, err)
	must(t, db.Close())
}

// TestLogsArePreallocated: after each transaction the logs have all the disk space that Badger may
// still use, and Badger took the file that was created for it.
func TestLogsArePreallocated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := openLocal(localOptions(dir, quiet), quiet)
	must(t, err)
	logs := &db.maintenance.logs
	if logs.unsupported {
		t.Skip("the file system cannot reserve space")
	}
	first := logs.next
	value := bytes.Repeat([]byte("x"), MaxTransactionBytes-1000)
	for i := range 40 {
		mustWrite(t, db, "key"+strconv.Itoa(i), value)
		for _, log := range wal.List(dir) {
			stat, err := os.Stat(log.Path)
			if err != nil {
				continue // it became a table
			}
			if space := stat.Sys().(*syscall.Stat_t).Blocks * 512; log.Number >= logs.next-1 && space < logBytes && logs.next != log.Number+1 {
				t.Fatalf("transaction %d: %s has space for %d bytes", i, log.Path, space)
			}
		}
	}
	if logs.next < first+2 {
		t.Fatalf("the logs went from %d to %d only", first, logs.next)
	}
	must(t, db.Close())
	if logs := wal.List(dir); len(logs) > 0 {
		t.Fatalf("left behind: %v", logs)
	}
}

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
