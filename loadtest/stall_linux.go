package loadtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// stallScenario sends lines while the disk of the data folder does not answer.
var stallScenario = Scenario{
	Name: "disk-stall-30s", About: "load while the disk of the data folder stalls for 30 s, and until the lag is gone",
	ShortAbout: "load while the disk of the data folder stalls for 2 s, and until the lag is gone",
	measure:    measureStall,
}

type stallSizes struct {
	load      Scenario
	perSecond int
	// before is the time under load before the stall, and during the length of the stall.
	before, during time.Duration
}

func stallSizesOf(m *measurement) stallSizes {
	sizes := stallSizes{Scenario{PerDatagram: 24, Seed: 27, series: newTaggedCounters(48, 5, 60, 5)},
		75_000, 5 * time.Second, 30 * time.Second}
	if m.Short {
		sizes = stallSizes{Scenario{PerDatagram: 24, Seed: 27, series: newTaggedCounters(12, 2, 50, 2)},
			5_000, time.Second, 2 * time.Second}
	}
	if m.rate > 0 {
		sizes.perSecond = m.rate
	}
	return sizes
}

func measureStall(ctx context.Context, m *measurement) (figures []Figure, err error) {
	sizes := stallSizesOf(m)
	disk, err := newStallingDisk(ctx)
	if errors.Is(err, errNoStall) {
		m.note("skipped: %v", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, disk.remove()) }()
	m.note("The disk is a file in a frozen file system. The load is %d lines/s throughout. Lines that were not taken waited in the socket's buffer until it was full; "+
		"longest_silence is the longest time that /metrics took to answer.", sizes.perSecond)
	s, err := m.startServer(ctx, "--data-dir", filepath.Join(disk.path(), "data"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, disk.resume(), s.stop()) }()
	s.client.Timeout += sizes.during // the server may stall as long as the disk does
	lines, err := m.startRounds(ctx, s, sizes.load, sizes.perSecond)
	if err != nil {
		return nil, err
	}
	stalled, watchErr := sizes.watch(ctx, m, s, disk)
	sent, err := lines.stop()
	if err := errors.Join(watchErr, disk.resume(), err); err != nil {
		return nil, err
	}
	drops, err := lines.audit(ctx, 0)
	if err != nil {
		return nil, err
	}
	all := lines.load.lines()
	lost, _ := lines.load.lost(drops)
	return []Figure{
		{Name: "lines_per_second", Unit: "lines/s", Value: sent},
		{Name: "taken", Unit: "% of the lines", Value: 100 * float64(all-lost) / float64(all), Aim: Aim{Least: 100}},
		{Name: "dropped_datagrams", Value: float64(drops)},
		{Name: "longest_silence", Unit: "s", Value: stalled.silence.Seconds()},
		{Name: "lag_before", Unit: "s", Value: stalled.lagBefore},
		{Name: "lag_max", Unit: "s", Value: stalled.lag},
		{Name: "lag_below_1s_after", Unit: "s", Value: stalled.caughtUp.Seconds()},
	}, nil
}

// stalled are the observations during a stall.
type stalled struct {
	lagBefore, lag    float64 // seconds
	silence, caughtUp time.Duration
}

func (sizes stallSizes) watch(ctx context.Context, m *measurement, s *server,
	disk *stallingDisk) (seen stalled, err error) {
	m.step("sending lines")
	if err := rest(ctx, sizes.before); err != nil {
		return seen, err
	}
	if seen.lagBefore, err = seen.look(ctx, s); err != nil {
		return seen, err
	}
	m.step("stalling the disk")
	if err := sizes.stallDuring(ctx, disk, func() error {
		_, err := seen.look(ctx, s)
		return err
	}); err != nil {
		return seen, err
	}
	m.step("after the stall")
	for resumed := time.Now(); ; {
		lag, err := seen.look(ctx, s)
		if err != nil {
			return seen, err
		}
		if seen.caughtUp = time.Since(resumed); lag < 1 {
			return seen, rest(ctx, sizes.before)
		}
		if seen.caughtUp > catchUpTimeout {
			return seen, fmt.Errorf("the store is still %.1fs behind, %s after the disk went on", lag, catchUpTimeout)
		}
		if err := rest(ctx, lookPoll); err != nil {
			return seen, err
		}
	}
}

// stallDuring calls look repeatedly while the disk stalls. The disk resumes on time even if look
// takes longer, because look may wait for the disk.
func (sizes stallSizes) stallDuring(ctx context.Context, disk *stallingDisk, look func() error) error {
	if err := disk.stall(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	resumed := make(chan error, 1)
	go func() {
		_ = rest(ctx, sizes.during) // the disk must resume in any case
		resumed <- disk.resume()
	}()
	for {
		err := look()
		if err == nil {
			select {
			case err = <-resumed:
				cancel()
				return err
			case <-time.After(lookPoll):
				continue
			}
		}
		cancel()
		return errors.Join(err, <-resumed)
	}
}

const (
	lookPoll       = 100 * time.Millisecond
	catchUpTimeout = 2 * time.Minute
)

// look reads the lag. The answer may take as long as the server stalls.
func (seen *stalled) look(ctx context.Context, s *server) (lag float64, err error) {
	asked := time.Now()
	said, err := s.meters(ctx)
	if err != nil {
		return 0, err
	}
	seen.silence = max(seen.silence, time.Since(asked))
	if lag, err = said.sum("sluice_store_lag_seconds", nil); err == nil {
		seen.lag = max(seen.lag, lag)
	}
	return lag, err
}
