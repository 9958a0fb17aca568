package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/wal"
)

const (
	childBlocks = 40
	childSeries = 64
)

// childMain increments every series, and prints a number once the store reports it on disk, until
// it is killed.
func childMain(dir string) error {
	model := newModel(0)
	cfg := testConfig(dir)
	cfg.FlushInterval = minFlushInterval
	s, err := Open(context.Background(), cfg, Parts{Table: model, Logger: quiet()})
	if err != nil {
		return err
	}
	go func() { fmt.Println("ended:", s.Run(context.Background())) }()
	number, err := model.common()
	if err != nil {
		return err
	}
	model.add(childBlocks - len(model.blocks))
	fmt.Println("restored", number)
	for {
		number++
		for block := range childBlocks {
			for slot := range uint16(childSeries) {
				model.put(block, slot, fmt.Sprintf("series.%d", slot), strconv.Itoa(number)+strings.Repeat(" ", 300))
			}
		}
		if err := s.Sync(context.Background()); err != nil {
			return err
		}
		fmt.Println("synced", number)
	}
}

// common is the lowest of the numbers that a child left.
func (m *modelTable) common() (int, error) {
	lowest := -1
	for i, b := range m.blocks {
		for slot, series := range b.series {
			number, err := strconv.Atoi(strings.TrimSpace(series.value))
			if err != nil {
				return 0, fmt.Errorf("block %d slot %d: %w", i, slot, err)
			}
			if lowest < 0 || number < lowest {
				lowest = number
			}
		}
	}
	return max(lowest, 0), nil
}

// TestKill kills a persisting process again and again in one folder: all that Sync acknowledged is
// there (S5), and the folder needs no repair.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 8
	if testing.Short() {
		rounds = 4
	}
	dir := t.TempDir()
	acknowledged := 0
	for round := range rounds {
		from := "synced" // so that something is acknowledged, however slow the machine is
		if round%2 == 1 {
			from = "restored"
		}
		acknowledged = max(acknowledged, runAndKill(t, dir, from, time.Duration(100+rand.IntN(400))*time.Millisecond))
		restored := newModel(0)
		s := mustOpenLocal(t, dir, restored)
		number, err := restored.common()
		if err != nil || number < acknowledged {
			t.Fatalf("round %d: %d was synced, restored %d (%v)", round, acknowledged, number, err)
		}
		mustLoseNothing(t, s)
		mustClose(t, s)
	}
	if acknowledged < rounds/2 {
		t.Fatalf("only %d syncs in %d rounds", acknowledged, rounds)
	}
	t.Logf("%d syncs in %d rounds", acknowledged, rounds)
}

// runAndKill kills a child some time after it first printed a word. It returns the highest number
// that the child reported as synced.
func runAndKill(t *testing.T, dir, from string, life time.Duration) (acknowledged int) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	must(t, err)
	var timer *time.Timer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, number, _ := strings.Cut(lines.Text(), " ")
		if word == from && timer == nil {
			timer = time.AfterFunc(life, func() { _ = child.Process.Kill() })
		}
		switch word {
		case "restored":
		case "synced":
			acknowledged, _ = strconv.Atoi(number)
		default:
			t.Errorf("child said: %s", lines.Text())
		}
	}
	_ = child.Wait()
	if timer == nil {
		t.Fatal("the child did not begin")
	}
	timer.Stop()
	return acknowledged
}

// TestCrashRestoresAStateThatWas holds S1 to S5: random births, changes, deaths and flushes. Now
// and then the folder is copied as a dying process would leave it, and the copy must restore to
// the flushed state.
func TestCrashRestoresAStateThatWas(t *testing.T) {
	t.Parallel()
	seeds, rounds := 2, 8
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		dir, model, s, clock := opened(t, 7)
		for round := range rounds {
			for range r.IntN(60) {
				model.randomOps(r, r.IntN(30))
				if r.IntN(8) == 0 {
					model.add(1)
				}
				clock.now = clock.now.Add(time.Duration(r.IntN(3)) * s.cfg.FlushInterval)
				clock.flush(t)
				model.settle()
			}
			model.randomOps(r, 20) // never flushed
			restored := newModel(0)
			again := mustOpenLocal(t, crashCopy(t, dir), restored)
			model.mustDescend(t, restored)
			mustLoseNothing(t, again)
			mustClose(t, again)
			if round%4 != 3 {
				continue
			}
			clock.flush(t)
			mustClose(t, s)
			restored = newModel(0)
			s = mustOpen(t, dir, restored)
			model.mustEqual(t, restored)
			restored.settleRestored()
			model, clock = restored, newStepper(s)
		}
		mustClose(t, s)
	}
}

// settleRestored begins the history of a restored table.
func (m *modelTable) settleRestored() {
	for i := range m.Blocks() {
		m.AppendState(nil, i)
	}
	m.settle()
}

// crashCopy copies a data folder that is in use, mapped logs and all, at a moment when Badger isn't
// replacing files.
func crashCopy(t testing.TB, dir string) string {
	t.Helper()
	for range 1000 {
		before := fingerprint(t, dir)
		folder, err := readFolder(dir)
		if err == nil && bytes.Equal(before, fingerprint(t, dir)) {
			return folder.write(t)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no moment to copy the folder in")
	return ""
}

// A savedFolder holds the files of a data folder by their paths, without the zeros that most of a
// log is.
type savedFolder map[string]savedFile

type savedFile struct {
	content []byte
	size    int64
}

func readFolder(dir string) (savedFolder, error) {
	saved := savedFolder{}
	return saved, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		saved[below] = savedFile{bytes.Clone(wal.TrimZeros(content)), int64(len(content))}
		return err
	})
}

// write writes the files into a new folder.
func (s savedFolder) write(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	for name, file := range s {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o750)
		if err == nil {
			err = os.WriteFile(path, file.content, 0o640)
		}
		if err == nil {
			err = os.Truncate(path, file.size)
		}
		must(t, err)
	}
	return dir
}

// fingerprint is the names and sizes of all files of the database, and its manifest.
func fingerprint(t testing.TB, dir string) []byte {
	t.Helper()
	var all []byte
	entries, err := os.ReadDir(filepath.Join(dir, folder.DatabaseName))
	must(t, err)
	for _, e := range entries {
		if stat, err := e.Info(); err == nil {
			all = append(all, e.Name()...)
			all = append(all, byte(stat.Size()), byte(stat.Size()>>8), byte(stat.Size()>>16))
		}
	}
	manifest, _ := os.ReadFile(filepath.Join(dir, folder.DatabaseName, "MANIFEST"))
	return append(all, manifest...)
}
