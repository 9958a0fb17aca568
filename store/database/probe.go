package database

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
	"github.com/sluice-metrics/sluice/store/wal"
)

// The probe is a child process that opens a copy of the database and reads all of it, before this
// process opens the database. Where a file isn't what Badger expects, Badger panics in goroutines
// of its own, exits, or dies of a SIGBUS; then the probe dies, and the database is as it was.

// The lines that a probe prints.
const (
	probeBegun  = "trial begun"
	probeFormat = "trial format "
	probeFault  = "trial fault "
	probeUnable = "trial unable "
	probePassed = "trial passed"
)

// errNotProbed: the probe didn't run, or was killed. That says nothing about the database.
var errNotProbed = errors.New("the probe could not be run")

// probe probes a scratch copy. Its error is format.ErrDamaged, format.ErrVersion, or errNotProbed.
func (o *Opener) probe(ctx context.Context) error {
	scratch := filepath.Join(o.Folder.Dir, folder.ProbeName)
	defer os.RemoveAll(scratch)
	if err := makeScratch(o.Folder.Database(), scratch); err != nil {
		return fmt.Errorf("%w: %w", errNotProbed, err)
	}
	return o.runProbe(ctx, probeEnv+"="+scratch)
}

// probeReadOnly probes the database itself, for reading alone. Badger still deletes unlisted
// tables, as at any opening: the manifest was checked.
func (o *Opener) probeReadOnly(ctx context.Context) error {
	return o.runProbe(ctx, probeEnv+"="+o.Folder.Database(), readOnlyEnv+"=1")
}

func (o *Opener) runProbe(ctx context.Context, env ...string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("%w: %w", errNotProbed, err)
	}
	limited, cancel := context.WithTimeout(ctx, o.ProbeTimeout)
	defer cancel()
	var output, crash bytes.Buffer
	child := exec.CommandContext(limited, program)
	child.Env = append(os.Environ(), env...)
	child.Stdout, child.Stderr = &output, &crash
	child.WaitDelay = time.Second
	// The kernel kills the child when the thread that started it ends, so this goroutine keeps the
	// thread. A process group of its own keeps a terminal's signals from the child: its death would
	// count as damage.
	child.SysProcAttr = childAttributes()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = child.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errNotProbed, ctx.Err())
	}
	if limited.Err() != nil {
		return format.Damaged("a probe did not open and read it within %v", o.ProbeTimeout)
	}
	return probeResult(o.Folder.Dir, output.String(), err, crash.String())
}

// probeResult interprets how a probe ended: its output, its exit, and its last words where it
// crashed.
func probeResult(dir, output string, exit error, crash string) error {
	begun := false
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if number, ok := strings.CutPrefix(line, probeFormat); ok {
			if version, err := strconv.ParseUint(number, 10, 32); err == nil && version != 0 &&
				!format.Readable(uint32(version)) {
				return format.UnreadableVersion(dir, uint32(version))
			}
		}
		if reason, ok := strings.CutPrefix(line, probeFault); ok {
			return format.Damaged("%s", reason)
		}
		if reason, ok := strings.CutPrefix(line, probeUnable); ok {
			return fmt.Errorf("%w: %s", errNotProbed, reason)
		}
		if line == probePassed {
			return nil
		}
		begun = begun || line == probeBegun
	}
	var status *exec.ExitError
	killed := errors.As(exit, &status) && status.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if !begun || killed {
		return fmt.Errorf("%w: %v", errNotProbed, exit)
	}
	return format.Damaged("opening it crashes the process: %v: %s", exit, firstLine(crash))
}

// firstLine is the first line of a crash, short enough for a log.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s[:min(len(s), 200)]
}

// makeScratch makes a copy of the database that the probe may open and spoil. Tables are hard
// links: Badger never writes to one, and the probe runs without compactions, which would truncate
// tables before they remove them. All else is copied.
func makeScratch(database, scratch string) error {
	if err := os.RemoveAll(scratch); err != nil {
		return fmt.Errorf("store: cannot clear the probe's folder: %w", err)
	}
	entries, err := os.ReadDir(database)
	if err != nil {
		return fmt.Errorf("store: cannot read the database: %w", err)
	}
	if err := os.Mkdir(scratch, 0o750); err != nil {
		return fmt.Errorf("store: cannot create the probe's folder: %w", err)
	}
	for _, e := range entries {
		from, to := filepath.Join(database, e.Name()), filepath.Join(scratch, e.Name())
		if !e.Type().IsRegular() {
			continue
		}
		put := copySparse
		if filepath.Ext(e.Name()) == ".sst" {
			put = linkOrCopy
		}
		if err := put(from, to); err != nil {
			return fmt.Errorf("store: cannot fill the probe's folder: %w", err)
		}
	}
	return nil
}

// linkOrCopy copies where the file system has no links.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return copySparse(from, to)
}

// copySparse copies a file without the zeros at its end, which are most of a log, and keeps its
// size.
func copySparse(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, wal.TrimZeros(content), 0o640); err != nil {
		return err
	}
	return os.Truncate(to, int64(len(content)))
}
