package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	benchBlocks = 733 // 750,000 series
	benchState  = 64  // bytes a series in a checkpoint
	benchNames  = 80
)

// A benchTable changes some of its series in every flush interval, a few bytes each.
type benchTable struct {
	changing int // series a block and flush
	bytes    int // a changed series
	seed     uint64
	named    [benchBlocks]bool
	restored atomic.Int64
}

func (b *benchTable) fill(dst []byte, n int) []byte {
	for range (n + 7) / 8 {
		b.seed = b.seed*6364136223846793005 + 1442695040888963407
		dst = binary.BigEndian.AppendUint64(dst, b.seed)
	}
	return dst
}

func (b *benchTable) Blocks() int { return benchBlocks }
func (b *benchTable) AppendDelta(dst []byte, _ int) []byte {
	return b.fill(dst, b.changing*b.bytes)
}
func (b *benchTable) AppendState(dst []byte, _ int) []byte { return b.fill(dst, 1024*benchState) }
func (b *benchTable) NamesChanged(block int) bool          { return !b.named[block] }
func (b *benchTable) AppendNames(dst []byte, block int) []byte {
	b.named[block] = true
	return b.fill(dst, 1024*benchNames)
}
func (b *benchTable) AppendClock(dst []byte) []byte { return b.fill(dst, 32) }
func (b *benchTable) RestoreClock([]byte) error     { return nil }
func (b *benchTable) RestoreBlock(_ int, names, state []byte, deltas [][]byte) error {
	if len(state) == 1024*benchState && len(names) == 1024*benchNames {
		b.restored.Add(1)
	}
	return nil
}
func (b *benchTable) RestoreDone() error { return nil }

// TestDiskTraffic prints what 750,000 series cost the disk, by how many of them change a second and
// how many bytes a change takes, and how long the restore takes. Set SLUICE_STORE_TRAFFIC to the
// seconds to run for.
func TestDiskTraffic(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("SLUICE_STORE_TRAFFIC"))
	if err != nil || testing.Short() {
		t.Skip("set SLUICE_STORE_TRAFFIC to a number of seconds")
	}
	for _, c := range []struct{ perSecond, bytes int }{{75_000, 10}, {75_000, 24}, {750_000, 6}, {750_000, 24}} {
		t.Run(fmt.Sprintf("%d a second of %d bytes", c.perSecond, c.bytes), func(t *testing.T) {
			table := &benchTable{bytes: c.bytes}
			cfg := testConfig(t.TempDir())
			table.changing = int(float64(c.perSecond) * cfg.FlushInterval.Seconds() / benchBlocks)
			s, err := Open(t.Context(), cfg, Parts{Table: table, Logger: quiet()})
			must(t, err)
			stop := start(t, s)
			time.Sleep(time.Second)
			written, cpu, began := diskBytes(t), cpuTime(t), time.Now()
			handed, flushing, flushes := s.count.writtenBytes.Load(), s.count.flushNanos.Load(), s.count.flushes.Load()
			worst := time.Duration(0)
			for time.Since(began) < time.Duration(seconds)*time.Second {
				worst = max(worst, s.Lag())
				time.Sleep(time.Millisecond)
			}
			took := time.Since(began).Seconds()
			t.Logf("handed over %.2f MB/s, to disk %.2f MB/s, %.3f core, worst lag %v, mean flush %v",
				float64(s.count.writtenBytes.Load()-handed)/took/1e6, float64(diskBytes(t)-written)/took/1e6,
				(cpuTime(t)-cpu).Seconds()/took, worst.Round(time.Millisecond),
				time.Duration((s.count.flushNanos.Load()-flushing)/max(1, s.count.flushes.Load()-flushes)).Round(time.Microsecond))
			stop()
			mustClose(t, s)
			restored := &benchTable{}
			s = mustOpen(t, cfg.Dir, restored)
			t.Logf("%d of %d checkpoints restored in %v", restored.restored.Load(), benchBlocks, time.Duration(s.count.restoreNanos.Load()).Round(time.Millisecond))
		})
	}
}

// diskBytes is what this process has caused to be written to disks.
func diskBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	_, after, _ := strings.Cut(string(text), "\nwrite_bytes: ")
	number, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Skip(err)
	}
	return n
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
