package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"os"

	"time"

	"golang.org/x/sys/unix"
)

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
