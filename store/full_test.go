package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
)

// fullDiskEnv, beside childEnv, makes the child persist under load on a disk that fills up.
const fullDiskEnv = "SLUICE_STORE_TEST_FULL_DISK"

// fullDiskMain applies until its input ends, and answers each line of it. It applies so little
// that a memtable outlasts the test: a disk that fills up while Badger writes a table can't be
// helped.
func fullDiskMain(dir string) error {
	model := newModel(0)
	cfg := testConfig(dir)
	cfg.MinFreeBytes = database.LeastFreeBytes
	s, err := Open(context.Background(), cfg, Parts{Table: model, Logger: quiet()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	model.add(max(0, childBlocks-len(model.blocks)))
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	asked := make(chan string)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			asked <- lines.Text()
		}
		close(asked)
	}()
	fmt.Println("begun")
	for number := 1; ; number++ {
		for block := range childBlocks {
			model.put(block, uint16(number%childSeries), "a", fmt.Sprint(number, strings.Repeat(" ", 50)))
		}
		select {
		case question, more := <-asked:
			if !more {
				cancel()
				err := <-ran
				if s.status.notPersisting() != "" {
					err = nil // it says that it is not persisting
				}
				return errors.Join(err, s.Close(context.Background()))
			}
			if err := answer(s, model, question, number); err != nil {
				return err
			}
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func answer(s *Store, model *modelTable, question string, number int) error {
	if question == "detail" {
		ok, detail := s.Detail()
		fmt.Println(ok, detail)
		return nil
	}
	model.put(0, modelSlots-1, "acknowledged", question)
	if err := s.Sync(context.Background()); err != nil {
		return err
	}
	fmt.Println("synced", number)
	return nil
}

type fullDiskChild struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	said  strings.Builder
}

func startFullDiskChild(t *testing.T, dir string) *fullDiskChild {
	t.Helper()
	c := &fullDiskChild{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+dir, fullDiskEnv+"=1")
	c.cmd.Stderr = &c.said
	in, err := c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	c.in, c.lines = in, bufio.NewScanner(out)
	must(t, c.cmd.Start())
	c.line()
	return c
}

func (c *fullDiskChild) line() string {
	c.t.Helper()
	if !c.lines.Scan() {
		err := c.cmd.Wait()
		c.t.Fatalf("the process died: %v\n%.1500s", err, c.said.String())
	}
	return c.lines.Text()
}

func (c *fullDiskChild) ask(question string) string {
	c.t.Helper()
	fmt.Fprintln(c.in, question)
	return c.line()
}

func (c *fullDiskChild) waitFor(what string) {
	c.t.Helper()
	eventually(c.t, what, func() bool { return strings.Contains(c.ask("detail"), what) })
}

// smallDisk mounts a disk until the test ends.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256m"); err != nil {
		t.Skipf("needs to mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil { // a log may stay mapped, see restoreOnly
			t.Error(err)
		}
	})
	return dir
}

// fill takes all free space of a disk at once.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	for {
		var disk syscall.Statfs_t
		must(t, syscall.Statfs(path, &disk))
		if disk.Bavail == 0 {
			return
		}
		end, _ := file.Seek(0, io.SeekEnd)
		_ = syscall.Fallocate(int(file.Fd()), 0, end, int64(disk.Bavail)*disk.Bsize) // the child may be faster
	}
}

// TestDiskFillsAtOnce: a disk that fills up between two flushes, under load, kills nothing. Ingest
// continues, persistence resumes with free space, and after a restart all that Sync acknowledged
// is there, however the process ended.
func TestDiskFillsAtOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"resume", "close", "kill"} {
		t.Run(end, func(t *testing.T) {
			disk := smallDisk(t)
			dir, ballast := filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
			child := startFullDiskChild(t, dir)
			acknowledged := ""
			for round := range 3 {
				acknowledged = fmt.Sprint("round ", round)
				child.ask(acknowledged)
				fill(t, ballast)
				child.waitFor("not persisting")
				for range 300 { // rounds of load on a full disk
					child.ask("detail")
				}
				child.waitFor("not persisting")
				if end != "resume" {
					break
				}
				removeFile(t, ballast)
				child.waitFor("true persisting")
			}
			if end == "kill" {
				_ = child.cmd.Process.Kill()
			}
			_ = child.in.Close()
			if err := child.cmd.Wait(); err != nil && end != "kill" {
				t.Fatalf("the process ended with %v\n%.1500s", err, child.said.String())
			}
			_ = os.Remove(ballast)
			restored := newModel(0)
			s := mustOpen(t, dir, restored)
			if s.count.setAside.Load()+s.count.failedBlocks.Load()+s.count.cutBlocks.Load() > 0 || len(restored.blocks) != childBlocks {
				t.Fatalf("%d blocks; restored with losses", len(restored.blocks))
			}
			if got := restored.blocks[0].series[modelSlots-1].value; got != acknowledged {
				t.Fatalf("restored %q, %q was acknowledged", got, acknowledged)
			}
			mustClose(t, s)
		})
	}
}

// TestRoomIsSeenBeforeEveryBatch: a disk that is full in the middle of a flush stops it. Badger is
// neither written to nor closed, and the next flush writes the dropped changes.
func TestRoomIsSeenBeforeEveryBatch(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 8)
	clock.period(t)
	for b := range 8 {
		for slot := range uint16(10) {
			model.put(b, slot, "a", strings.Repeat("x", 50_000)) // 4 MB: several batches
		}
	}
	db, looks := s.db, 0
	s.freeBytes = func(string) (uint64, error) {
		looks++
		if looks > 2 {
			return 0, nil
		}
		return 1 << 40, nil
	}
	clock.now = clock.now.Add(s.cfg.FlushInterval)
	if err := s.flushStep(clock.now); !errors.Is(err, database.ErrDiskFull) || looks != 3 {
		t.Fatalf("after %d looks at the disk: %v", looks, err)
	}
	if ok, detail := s.Detail(); ok || !strings.Contains(detail, "free") || s.count.failures.Load() != 0 {
		t.Fatalf("Detail: %v %s; %d failures", ok, detail, s.count.failures.Load())
	}
	if err := s.Sync(t.Context()); !errors.Is(err, ErrNotPersisting) || !strings.Contains(err.Error(), "free") {
		t.Fatalf("Sync: %v", err)
	}
	if s.db != db {
		t.Fatal("the database was closed")
	}
	clock.now = clock.now.Add(firstRetry)
	s.freeBytes = func(string) (uint64, error) { return s.cfg.MinFreeBytes*5/4 - 1, nil }
	if err := s.flushStep(clock.now); err == nil {
		t.Fatal("persisting again, before a quarter more is free than must stay free")
	}
	s.ending.Store(true)
	clock.flush(t)
	if s.db != db {
		t.Fatal("the database was exchanged")
	}
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// TestObsoleteDataIsFreed: a disk that is full of obsolete data alone has space again by a compaction,
// though nothing is written any more.
func TestObsoleteDataIsFreed(t *testing.T) {
	t.Parallel()
	dir, model, s, clock := opened(t, 1)
	write := func(bytes int) {
		model.put(0, 1, "fat", strings.Repeat(fmt.Sprint(clock.now.UnixNano()%10), bytes))
		clock.now = clock.now.Add(firstRetry)
		_ = s.flushStep(clock.now)
	}
	eventually(t, "a compaction, without many tables that it leaves out", func() bool {
		before := tableBytes(t, dir)
		if write(10); before < 104<<20 {
			write(4 << 20)
		}
		return tableBytes(t, dir) < before
	})
	for range 4 { // far fewer tables than make a compaction due
		write(4 << 20)
	}
	full := tableBytes(t, dir)
	s.freeBytes = func(string) (uint64, error) {
		if tableBytes(t, dir) > full-4<<20 {
			return s.cfg.MinFreeBytes - 1, nil
		}
		return s.cfg.MinFreeBytes * 5 / 4, nil
	}
	eventually(t, "persisting again", func() bool {
		write(10)
		return s.status.notPersisting() == ""
	})
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// tableBytes is the size of the tables in a data folder.
func tableBytes(t *testing.T, dir string) (sum uint64) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, folder.DatabaseName, "*.sst"))
	must(t, err)
	for _, path := range tables {
		if info, err := os.Stat(path); err == nil { // not removed meanwhile
			sum += uint64(info.Size())
		}
	}
	return sum
}
