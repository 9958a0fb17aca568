package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/wal"
)

// A killed is a data folder as kill -9 leaves it: all of it is in one log.
type killed struct {
	folder savedFolder
	log    string // its name
	size   int64  // up to where it was written
	synced int64
	model  *modelTable
}

var killedOnce struct {
	sync.Mutex
	killed
}

// makeKilled writes blocks, syncs, and writes some more; once. Tests must not change the model.
func makeKilled(t *testing.T) killed {
	t.Helper()
	killedOnce.Lock()
	defer killedOnce.Unlock()
	if killedOnce.model == nil {
		killedOnce.killed = writeAndKill(t)
	}
	return killedOnce.killed
}

func writeAndKill(t *testing.T) killed {
	t.Helper()
	dir := t.TempDir()
	k := killed{model: newModel(6)}
	s := mustOpen(t, dir, k.model)
	clock := newStepper(s)
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 24 {
		for b := range 6 {
			k.model.put(b, uint16(r.IntN(50)), fmt.Sprint("n", r.IntN(9)), randomText(r, 1+r.IntN(400)))
		}
		clock.period(t)
		if round == 12 {
			must(t, s.syncOnce())
			k.model.settle()
			for _, mark := range wal.ReadWatermark(s.folder.Database()).Positions {
				k.synced = mark.End + wal.HeaderBytes
			}
		}
	}
	dir = crashCopy(t, dir)
	mustClose(t, s)
	saved, err := readFolder(dir)
	must(t, err)
	k.folder = saved
	k.log = filepath.Base(databaseFiles(t, dir, "*1.mem")[0])
	content := saved[filepath.Join(folder.DatabaseName, k.log)].content
	committed := wal.Scan(content[wal.HeaderBytes:]).Committed
	k.size = int64(committed + wal.HeaderBytes)
	if k.synced <= wal.HeaderBytes || k.size <= k.synced {
		t.Fatalf("synced up to %d, written up to %d", k.synced, k.size)
	}
	return k
}

func (k killed) copy(t *testing.T) (dir, log string) {
	t.Helper()
	dir = k.folder.write(t)
	return dir, filepath.Join(dir, folder.DatabaseName, k.log)
}

// reboot makes a folder look as if the machine had restarted since.
func reboot(t *testing.T, dir string) {
	t.Helper()
	note := wal.ReadWatermark(filepath.Join(dir, folder.DatabaseName))
	if note.Boot == "" {
		t.Fatal("no note in the database")
	}
	note.Boot = "another"
	must(t, note.Write())
}

// mustSpeak opens a folder. Either all is restored, or the log was set aside unchanged, or, after
// the last sync, Detail mentions an unfinished write.
func (k killed) mustSpeak(t *testing.T, dir, what string, damagedLog []byte) (aside, torn bool) {
	t.Helper()
	restored := newModel(0)
	s := mustOpenLocal(t, dir, restored)
	defer mustClose(t, s)
	_, detail := s.Detail()
	torn = strings.Contains(detail, "unfinished write")
	if s.count.setAside.Load() > 0 {
		kept, _ := filepath.Glob(filepath.Join(dir, folder.DatabaseName+".damaged-*", k.log))
		if len(kept) != 1 || !strings.Contains(detail, "started empty") {
			t.Fatalf("%s: kept %v; %s", what, kept, detail)
		}
		if content, err := os.ReadFile(kept[0]); err != nil || string(content) != string(damagedLog) {
			t.Fatalf("%s: what was set aside is not what was found (%v)", what, err)
		}
		return true, torn
	}
	if torn {
		k.model.mustDescend(t, restored)
		return false, true
	}
	k.model.mustEqual(t, restored)
	if len(restored.blocks) != len(k.model.blocks) {
		t.Fatalf("%s: %d blocks and not a word: %s", what, len(restored.blocks), detail)
	}
	return false, false
}

// TestFlippedBits: a log with a flipped bit is never used or cut in silence. Package wal tries
// every bit.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	k := makeKilled(t)
	offsets := []int64{0, 7, 8, 19, 20, 21, 22, 23, 24, 40, k.synced - 1, k.synced, k.size - 1, k.size - 5, k.size, k.size + 1000}
	for i, at := range offsets {
		dir, log := k.copy(t)
		content, err := os.ReadFile(log)
		must(t, err)
		content[at] ^= 1 << (i % 8)
		overwrite(t, log, at, content[at:at+1])
		rebooted := i%2 == 1
		if rebooted {
			reboot(t, dir)
		}
		what := fmt.Sprintf("bit %d of byte %d of %d, synced to %d, rebooted %v", i%8, at, k.size, k.synced, rebooted)
		aside, _ := k.mustSpeak(t, dir, what, content)
		if at >= wal.HeaderBytes && at < k.synced && !aside {
			t.Errorf("%s: not set aside", what)
		}
	}
}

// TestTornTail: a log that ends in the middle of a write after the last sync loses that write
// alone. Before the last sync that is damage. Package wal tries every end.
func TestTornTail(t *testing.T) {
	t.Parallel()
	k := makeKilled(t)
	ends := []int64{k.synced, k.synced + 1, (k.synced + k.size) / 2, k.size - 1, k.size - 30, k.size,
		5, wal.HeaderBytes, k.synced / 2, k.synced - 1}
	for i, end := range ends {
		dir, log := k.copy(t)
		size := fileSize(t, log)
		truncate(t, log, end)
		if i%3 != 0 || end < wal.HeaderBytes {
			truncate(t, log, size) // zeros, as in a mapped log
		}
		if i%2 == 1 {
			reboot(t, dir)
		}
		restored := newModel(0)
		s := mustOpenLocal(t, dir, restored)
		_, detail := s.Detail()
		aside := s.count.setAside.Load() > 0
		if end < k.synced && end >= wal.HeaderBytes && !aside {
			t.Fatalf("torn at %d, synced to %d: %s", end, k.synced, detail)
		}
		if end >= k.synced {
			if aside || s.count.failedBlocks.Load()+s.count.cutBlocks.Load() > 0 {
				t.Fatalf("torn at %d, synced to %d: %s", end, k.synced, detail)
			}
			k.model.mustDescend(t, restored)
		}
		mustClose(t, s)
	}
}

// TestHoleAfterPowerLoss: pages that weren't written at a power cut leave holes after the last
// sync. They are no damage if the machine went down, but are if only the process died.
func TestHoleAfterPowerLoss(t *testing.T) {
	t.Parallel()
	k := makeKilled(t)
	for _, rebooted := range []bool{true, false} {
		dir, log := k.copy(t)
		overwrite(t, log, k.synced, make([]byte, min(4096, (k.size-k.synced)/2)))
		if rebooted {
			reboot(t, dir)
		}
		restored := newModel(0)
		s := mustOpenLocal(t, dir, restored)
		_, detail := s.Detail()
		if aside := s.count.setAside.Load() > 0; aside == rebooted {
			t.Fatalf("rebooted %v: set aside %v: %s", rebooted, aside, detail)
		}
		if rebooted {
			k.model.mustDescend(t, restored)
			if !strings.Contains(detail, "unfinished write") {
				t.Fatalf("not a word of it: %s", detail)
			}
		}
		mustClose(t, s)
	}
}

// TestLostLog: a synced log that is missing, empty or another one is damage, on a disk with space
// and on a full one. A log that became a table isn't missed.
func TestLostLog(t *testing.T) {
	t.Parallel()
	k := makeKilled(t)
	for name, lose := range map[string]func(log string) error{
		"missing": os.Remove,
		"empty":   func(log string) error { return os.Truncate(log, 0) },
		"renamed": func(log string) error { return os.Rename(log, log+".old") },
	} {
		for _, room := range []uint64{1 << 40, database.LeastFreeBytes - 1} {
			t.Run(fmt.Sprint(name, " ", room), func(t *testing.T) {
				dir, log := k.copy(t)
				must(t, lose(log))
				var free atomic.Uint64
				free.Store(room)
				restored := newModel(0)
				s := startWithout(t, testConfig(dir), restored, database.InProcess, &free)
				defer mustClose(t, s)
				if _, detail := s.Detail(); !strings.Contains(detail, "is missing") || len(restored.blocks) > 0 {
					t.Errorf("%d blocks and not a word: %s", len(restored.blocks), detail)
				}
			})
		}
	}
	t.Run("became a table", func(t *testing.T) {
		dir, _ := k.copy(t)
		note := wal.ReadWatermark(filepath.Join(dir, folder.DatabaseName))
		mustClose(t, mustOpenLocal(t, dir, newModel(0)))
		if err := note.Write(); err != nil { // as of before
			t.Fatal(err)
		}
		restored := newModel(0)
		s := mustOpenLocal(t, dir, restored)
		defer mustClose(t, s)
		k.model.mustEqual(t, restored)
		if s.count.setAside.Load() > 0 || len(note.Positions) == 0 {
			_, detail := s.Detail()
			t.Errorf("%d marks: %s", len(note.Positions), detail)
		}
	})
}
