package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// persistenceScenario measures the cost of persisting changing series.
var persistenceScenario = Scenario{
	Name: "persistence", About: "750000 counters that each change every 10 s: bytes to disk, CPU and lag of the store",
	ShortAbout: "12000 counters that each change every 2 s: bytes to disk, CPU and lag of the store",
	measure:    measurePersistence,
}

// neverPersist requires more free disk space than there is, so that the server does not persist.
var neverPersist = []string{"--min-free-disk", "1000000GiB"}

func measurePersistence(ctx context.Context, m *measurement) ([]Figure, error) {
	load, perSecond, during := Scenario{PerDatagram: 24, Seed: 25,
		series: newTaggedCounters(50, 5, 600, 5)}, 75_000, 30*time.Second
	if m.Short {
		load.series, perSecond, during = newTaggedCounters(12, 2, 100, 5), 6_000, 2*time.Second
	}
	if m.rate > 0 {
		perSecond = m.rate
	}
	m.note("persistence_cpu is the server's share of a processor less that of a server that does not persist. " +
		"to_disk is the kernel's count of bytes written (/proc/PID/io, write_bytes): none on a tmpfs.")
	with, err := m.persist(ctx, load, perSecond, during, (*server).stop)
	if err != nil {
		return nil, err
	}
	without, err := m.persist(ctx, load, perSecond, during, (*server).discard, neverPersist...)
	if err != nil {
		return nil, fmt.Errorf("without persistence: %w", err)
	}
	return []Figure{
		{Name: "lines_per_second", Unit: "lines/s", Value: with.perSecond},
		{Name: "dropped_datagrams", Value: float64(with.drops)},
		{Name: "dropped_datagrams_without", Value: float64(without.drops)},
		{Name: "to_disk", Unit: "MB/s", Value: with.written / 1e6, Aim: Aim{Most: 10}},
		{Name: "persistence_cpu", Unit: "cores", Value: max(with.busy-without.busy, 0), Aim: Aim{Most: 0.1}},
		{Name: "server_cpu", Unit: "cores", Value: with.busy},
		{Name: "server_cpu_without", Unit: "cores", Value: without.busy},
		{Name: "flushing", Unit: "s/s", Value: with.flushing},
		{Name: "lag_max", Unit: "s", Value: with.lag, Aim: Aim{Most: 1}},
	}, nil
}

// persisted are the measurements of a server under load.
type persisted struct {
	perSecond float64 // lines
	drops     int64   // datagrams, whose lines changed nothing
	written   float64 // bytes per second
	busy      float64 // share of a processor
	flushing  float64 // share of the time
	lag       float64 // seconds, at most
}

func (m *measurement) persist(ctx context.Context, load Scenario, perSecond int, during time.Duration,
	end func(*server) error, args ...string) (p persisted, err error) {
	s, err := m.startServer(ctx, args...)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, end(s)) }()
	lines, err := m.startRounds(ctx, s, load, perSecond)
	if err != nil {
		return p, err
	}
	m.step("sending lines")
	watchErr := p.watch(ctx, s, during)
	p.perSecond, err = lines.stop()
	if err := errors.Join(watchErr, err); err != nil {
		return p, err
	}
	p.drops, err = lines.audit(ctx, 0)
	return p, err
}

const lagPoll = 500 * time.Millisecond

func (p *persisted) watch(ctx context.Context, s *server, during time.Duration) error {
	if err := rest(ctx, during/10); err != nil { // new series are written whole at first
		return err
	}
	before, err := readUse(ctx, s)
	if err != nil {
		return err
	}
	for time.Since(before.at) < during {
		now, err := readUse(ctx, s)
		if err != nil {
			return err
		}
		p.lag = max(p.lag, now.lag)
		if err := rest(ctx, lagPoll); err != nil {
			return err
		}
	}
	after, err := readUse(ctx, s)
	if err != nil {
		return err
	}
	took := after.at.Sub(before.at).Seconds()
	p.written = float64(after.written-before.written) / took
	p.busy = (after.cpu.total - before.cpu.total).Seconds() / took
	p.flushing = (after.flushing - before.flushing) / took
	return nil
}

// use is the resource use of a server at a moment.
type use struct {
	at            time.Time
	cpu           cpuTime
	written       int64
	flushing, lag float64 // seconds
}

func readUse(ctx context.Context, s *server) (u use, err error) {
	said, err := s.meters(ctx)
	if err != nil {
		return u, err
	}
	if u.lag, err = said.sum("sluice_store_lag_seconds", nil); err != nil {
		return u, err
	}
	if u.flushing, err = said.sum("sluice_store_flush_seconds_total", nil); err != nil {
		return u, err
	}
	if u.written, err = readWritten(s.pid()); err != nil {
		return u, err
	}
	u.at = time.Now()
	u.cpu, err = readCPU(s.pid())
	return u, err
}

// readWritten returns the number of bytes that a process and all descendants have caused to be
// written to disk.
func readWritten(pid int) (sum int64, err error) {
	for _, one := range processTree(pid) {
		written, err := readOneWritten(one)
		if err != nil {
			return 0, err
		}
		sum += written
	}
	return sum, nil
}

// readOneWritten is readWritten for one process: proc_pid_io(5).
func readOneWritten(pid int) (int64, error) {
	path := fmt.Sprintf("/proc/%d/io", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\nwrite_bytes: ")
	digits, _, _ := strings.Cut(rest, "\n")
	written, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: write_bytes: %w", path, err)
	}
	return written, nil
}
