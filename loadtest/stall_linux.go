package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// stallingDisk is a file system whose disk can stall. The disk is a file in another file system,
// which is frozen: reads are answered, writes stay in memory, and a wait for the disk lasts until
// the thaw. The upper file system notices nothing, as with a disk that hangs. Both are loop
// devices, which need root.
type stallingDisk struct {
	dir        string
	beneath    *os.File // root of the file system that is frozen
	mounted    []string // in the order of mounting
	isStalling bool
}

// errNoStall means that this machine cannot have a stalling disk.
var errNoStall = errors.New("a stalling disk needs two file systems on loop devices, and root")

const (
	diskBytes    = 3 << 30 // sparse
	beneathBytes = diskBytes + 512<<20
)

func newStallingDisk(ctx context.Context) (_ *stallingDisk, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: that needs root", errNoStall)
	}
	d := &stallingDisk{}
	if d.dir, err = os.MkdirTemp("", "sluice-loadtest-disk-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.remove())
		}
	}()
	if err := d.mount(ctx, filepath.Join(d.dir, "beneath.img"), "beneath", beneathBytes); err != nil {
		return nil, err
	}
	if err := d.mount(ctx, filepath.Join(d.dir, "beneath", "disk.img"), "disk", diskBytes); err != nil {
		return nil, err
	}
	d.beneath, err = os.Open(filepath.Join(d.dir, "beneath"))
	return d, err
}

// mount makes and mounts a file system in a sparse file.
func (d *stallingDisk) mount(ctx context.Context, image, name string, bytes int64) error {
	at := filepath.Join(d.dir, name)
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, bytes), os.Mkdir(at, 0o700)); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", image},
		{"mount", "-o", "loop", image, at},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: %s: %w: %s", errNoStall, strings.Join(command, " "), err, strings.TrimSpace(string(out)))
		}
	}
	d.mounted = append(d.mounted, at)
	return nil
}

// path returns the folder of the file system whose disk stalls.
func (d *stallingDisk) path() string { return filepath.Join(d.dir, "disk") }

// FIFREEZE and FITHAW of linux/fs.h.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// stall stops the disk until resume.
func (d *stallingDisk) stall() error {
	if err := unix.IoctlSetInt(int(d.beneath.Fd()), fiFreeze, 0); err != nil {
		return fmt.Errorf("freeze %s: %w", d.beneath.Name(), err)
	}
	d.isStalling = true
	return nil
}

// resume restarts the disk. It does nothing if the disk is running.
func (d *stallingDisk) resume() error {
	if !d.isStalling {
		return nil
	}
	d.isStalling = false
	if err := unix.IoctlSetInt(int(d.beneath.Fd()), fiThaw, 0); err != nil {
		return fmt.Errorf("thaw %s: %w", d.beneath.Name(), err)
	}
	return nil
}

// remove unmounts the file systems; no process may have a file open on them.
func (d *stallingDisk) remove() (err error) {
	if d.beneath != nil {
		err = errors.Join(d.resume(), d.beneath.Close())
	}
	for i := len(d.mounted) - 1; i >= 0 && err == nil; i-- {
		if err = unix.Unmount(d.mounted[i], 0); err != nil {
			err = fmt.Errorf("unmount %s: %w", d.mounted[i], err)
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(d.dir)
}
