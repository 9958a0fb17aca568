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

// restartScenario is how soon a server with many series answers again, after it ended well and after it was killed,
// and what the kill cost.
var restartScenario = Scenario{
	Name: "restart-750k", About: "750000 counters on disk: from start to ready and to a right answer, after a clean end and after kill -9",
	ShortAbout: "4000 counters on disk: from start to ready and to a right answer, after a clean end and after kill -9",
	measure:    measureRestart,
}

// restartLoad is the series, and what comes in for how long before the server is killed.
type restartLoad struct {
	Scenario
	perSecond int
	until     time.Duration
}

func restartLoadOf(short bool) restartLoad {
	load := restartLoad{Scenario{PerDatagram: 24, Seed: 24, series: newTaggedCounters(50, 5, 600, 5)}, 75_000, 10 * time.Second}
	if short {
		load.series, load.perSecond, load.until = newTaggedCounters(10, 2, 100, 2), 20_000, time.Second
	}
	return load
}

// paths are where all series are read.
func (l restartLoad) paths() []string { return l.series.parts()[0].paths }

func measureRestart(ctx context.Context, m *measurement) (figures []Figure, err error) {
	load := restartLoadOf(m.Short)
	m.note("Times count from the start of the process. The server was killed while %d lines/s came in; lost are those of the lines sent "+
		"until then that were not there after the restart, in seconds of that rate.", load.perSecond)
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
	m.step("server ends")
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
		err = fmt.Errorf("%w:\nafter a clean end all series add up to %d: want %d, as before", ErrBooks, sum, applied)
	}
	if err != nil {
		return nil, errors.Join(err, again.terminate())
	}
	figures = append(figures, times.figures("after_clean_end")...)
	killed, err := m.killAndRestart(ctx, again, load, applied, first)
	return append(figures, killed...), err
}

// killAndRestart kills the server under load, starts another in its folder, and counts what is missing.
func (m *measurement) killAndRestart(ctx context.Context, s *server, load restartLoad, applied, first int64) ([]Figure, error) {
	m.step("lines come in until the server is killed")
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
		return nil, fmt.Errorf("%w:\nafter kill -9 all series add up to %d: want more than the %d from before the load, and no more than the %d sent in all",
			ErrBooks, sum, applied, applied+sent)
	}
	return append(times.figures("after_kill"),
		Figure{Name: "lost_lines", Unit: "lines", Value: float64(lost)},
		Figure{Name: "lost", Unit: "s", Value: float64(lost) / float64(load.perSecond), Aim: Aim{Most: 1}}), nil
}

// floodUntilKilled sends lines at a rate and kills the server after a while. It returns how many lines were sent by
// then, without those that the kernel dropped: what it had not read yet is with them.
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

// kill ends the server as the kernel does when memory is short.
func (s *server) kill() error {
	s.client.CloseIdleConnections()
	if err := s.cmd.Process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.ended
	return nil
}

// discard is stop for a server that cannot end well.
func (s *server) discard() error { return errors.Join(s.kill(), os.RemoveAll(s.dir)) }

// restarted is how long a start took.
type restarted struct{ ready, answer time.Duration }

func (r restarted) figures(name string) []Figure {
	return []Figure{
		{Name: name + "_ready", Unit: "s", Value: r.ready.Seconds(), Aim: Aim{Most: 3}},
		{Name: name + "_right_answer", Unit: "s", Value: r.answer.Seconds(), Aim: Aim{Most: 3}},
	}
}

// startAgain starts a server in the folder that another one left, and reads a metric whose series added up to so much
// when that was last known.
func (m *measurement) startAgain(ctx context.Context, s *server, load restartLoad, atLeast int64) (_ *server, r restarted, err error) {
	begun := time.Now()
	again, err := m.startServerIn(ctx, s.dir)
	if err != nil {
		return nil, r, err
	}
	r.ready = time.Since(begun)
	m.step("server answers")
	path := load.paths()[:1]
	sum, err := total(ctx, again.client, again.http, path)
	if err == nil && sum < atLeast {
		err = fmt.Errorf("%w:\n%s add up to %d after the restart: want at least the %d of before", ErrBooks, path[0], sum, atLeast)
	}
	if err != nil {
		return nil, r, errors.Join(err, again.terminate())
	}
	r.answer = time.Since(begun)
	return again, r, nil
}
