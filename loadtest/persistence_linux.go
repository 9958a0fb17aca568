package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// restartScenario measures the start of a server with many series, after a clean end and after a
// kill, and the lines lost by the kill.
var restartScenario = Scenario{
	Name: "restart-750k", About: "750000 counters on disk: time to ready and to a correct answer, after a clean end and after kill -9",
	ShortAbout: "4000 counters on disk: time to ready and to a correct answer, after a clean end and after kill -9",
	measure:    measureRestart,
}

// restartLoad is the set of series, and the load before the kill.
type restartLoad struct {
	Scenario
	perSecond int
	until     time.Duration
}

func restartLoadOf(short bool) restartLoad {
	load := restartLoad{Scenario{PerDatagram: 24, Seed: 24, series: newTaggedCounters(50, 5, 600, 5)},
		75_000, 10 * time.Second}
	if short {
		load.series, load.perSecond, load.until = newTaggedCounters(10, 2, 100, 2), 20_000, time.Second
	}
	return load
}

// paths returns the paths of all series in the HTTP API.
func (l restartLoad) paths() []string { return l.series.parts()[0].paths }

func measureRestart(ctx context.Context, m *measurement) (figures []Figure, err error) {
	load := restartLoadOf(m.Short)
	m.note("Times start with the process. The server was killed under %d lines/s; lost is the lines sent until then and missing after "+
		"the restart, in seconds of that rate.", load.perSecond)
	s, err := m.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	lines, err := m.startBackground(ctx, s, load.Scenario, load.perSecond)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if _, err := lines.stop(); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	drops, err := lines.audit(ctx, 0)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	dropped, _ := lines.load.lost(drops)
	applied := lines.sent() - dropped
	first, err := total(ctx, s.client, s.http, load.paths()[:1])
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	begun := time.Now()
	m.step("stopping the server")
	err = s.terminate()
	if err != nil {
		return nil, err
	}
	figures = append(figures, Figure{Name: "clean_end", Unit: "s", Value: time.Since(begun).Seconds()})

	again, times, err := m.startAgain(ctx, s, load, first)
	if err != nil {
		return nil, err
	}
	sum, err := total(ctx, again.client, again.http, load.paths())
	if err == nil && sum != applied {
		err = fmt.Errorf("%w:\nthe sum of all series after a clean end is %d; must be %d, as before",
			ErrUnaccounted, sum, applied)
	}
	if err != nil {
		return nil, errors.Join(err, again.terminate())
	}
	figures = append(figures, times.figures("after_clean_end")...)
	killed, err := m.killAndRestart(ctx, again, load, applied, first)
	return append(figures, killed...), err
}

// killAndRestart kills the server under load, starts another in the same folder, and counts the
// missing lines.
func (m *measurement) killAndRestart(ctx context.Context, s *server, load restartLoad, applied,
	first int64) ([]Figure, error) {
	m.step("sending lines, then killing the server")
	sent, err := load.floodUntilKilled(ctx, s)
	if err != nil {
		return nil, errors.Join(err, s.kill())
	}
	again, times, err := m.startAgain(ctx, s, load, first)
	if err != nil {
		return nil, err
	}
	sum, err := total(ctx, again.client, again.http, load.paths())
	if err := errors.Join(err, again.terminate()); err != nil {
		return nil, err
	}
	lost := applied + sent - sum
	if lost < 0 || sum <= applied {
		return nil, fmt.Errorf("%w:\nthe sum of all series after kill -9 is %d; must be more than the %d before the load, and at most the %d sent in total",
			ErrUnaccounted, sum, applied, applied+sent)
	}
	return append(times.figures("after_kill"),
		Figure{Name: "lost_lines", Unit: "lines", Value: float64(lost)},
		Figure{Name: "lost", Unit: "s", Value: float64(lost) / float64(load.perSecond), Aim: Aim{Most: 1}}), nil
}

// floodUntilKilled sends lines at a rate and kills the server. It returns the number of lines sent,
// less those that the kernel dropped. Lines that the server had not read count as sent.
func (l restartLoad) floodUntilKilled(ctx context.Context, s *server) (int64, error) {
	sender, err := newFlood(newFloodLoad(l.Scenario), 1, s.udp)
	if err != nil {
		return 0, err
	}
	pause, cancel := context.WithTimeout(ctx, l.until)
	defer cancel()
	sent, err := sender.load(pause, math.MaxInt64, l.perSecond)
	q, queueErr := readQueue(s.udp)
	killed := errors.Join(queueErr, s.kill())
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	dropped, _ := sent.lost(q.drops)
	return sent.lines() - dropped, errors.Join(err, killed, sender.close())
}

// kill sends SIGKILL.
func (s *server) kill() error {
	s.client.CloseIdleConnections()
	if err := s.cmd.Process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.ended
	return nil
}

// discard is stop for a server that cannot end cleanly.
func (s *server) discard() error { return errors.Join(s.kill(), os.RemoveAll(s.dir)) }

// restarted are the times of a start.
type restarted struct{ ready, answer time.Duration }

func (r restarted) figures(name string) []Figure {
	return []Figure{
		{Name: name + "_ready", Unit: "s", Value: r.ready.Seconds(), Aim: Aim{Most: 3}},
		{Name: name + "_right_answer", Unit: "s", Value: r.answer.Seconds(), Aim: Aim{Most: 3}},
	}
}

// startAgain starts a server in the folder of another. It reads a metric, whose sum must not be
// less than atLeast.
func (m *measurement) startAgain(ctx context.Context, s *server, load restartLoad,
	atLeast int64) (_ *server, r restarted, err error) {
	begun := time.Now()
	again, err := m.startServerIn(ctx, s.dir)
	if err != nil {
		return nil, r, err
	}
	r.ready = time.Since(begun)
	m.step("reading from the server")
	path := load.paths()[:1]
	sum, err := total(ctx, again.client, again.http, path)
	if err == nil && sum < atLeast {
		err = fmt.Errorf("%w:\n%s has the sum %d after the restart; must be at least %d, as before", ErrUnaccounted,
			path[0], sum, atLeast)
	}
	if err != nil {
		return nil, r, errors.Join(err, again.terminate())
	}
	r.answer = time.Since(begun)
	return again, r, nil
}

// minFreeBytes covers the 256 MiB that the server keeps free (a quarter more after a pause) and
// the data of any scenario.
const minFreeBytes = 1 << 30

// checkDiskSpace rejects a temporary folder with too little space: the server would stop
// persisting, and a line would cost less.
func checkDiskSpace() error {
	var disk unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &disk); err != nil {
		return fmt.Errorf("%s: %w", os.TempDir(), os.NewSyscallError("statfs", err))
	}
	return diskSpaceFault(os.TempDir(), disk.Bavail*uint64(disk.Bsize))
}

func diskSpaceFault(dir string, free uint64) error {
	if free >= minFreeBytes {
		return nil
	}
	return fmt.Errorf("%s has %d MiB of free space; must have %d MiB, since the server does not persist to a nearly full disk. Set TMPDIR to another folder",
		dir, free>>20, minFreeBytes>>20)
}
