package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/store/format"
)

// The trial: before this process opens a database, a child of it opens a copy and reads everything. Badger
// panics in goroutines of its own, exits, or dies of a SIGBUS where a file is not what it expected; then the
// child is what dies. Nothing that the child does reaches the database.

// trialEnv names the folder to try, and thereby makes the process a trial.
const trialEnv = "SLUICE_STORE_TRIAL"

// readOnlyEnv, beside it, makes the trial one of a database itself, in which it writes nothing. (Tables that are not listed go, as at any opening: the manifest was checked.)
const readOnlyEnv = "SLUICE_STORE_TRIAL_READ_ONLY"

// What a trial prints, a line each.
const (
	trialBegun  = "trial begun"
	trialFormat = "trial format "
	trialFault  = "trial fault "
	trialUnable = "trial unable "
	trialPassed = "trial passed"
)

// errUntried: there was no trial, which says nothing about the database.
var errUntried = errors.New("the trial could not be run")

// try runs the trial. Its error is errDamaged, ErrFormat, or errUntried.
func (f *folder) try(ctx context.Context, timeout time.Duration) error {
	scratch := filepath.Join(f.dir, trialName)
	defer os.RemoveAll(scratch)
	if err := makeScratch(f.database(), scratch); err != nil {
		return fmt.Errorf("%w: %w", errUntried, err)
	}
	return f.tryFolder(ctx, timeout, trialEnv+"="+scratch)
}

// tryReadOnly runs the trial on the database itself, which it only reads.
func (f *folder) tryReadOnly(ctx context.Context, timeout time.Duration) error {
	return f.tryFolder(ctx, timeout, trialEnv+"="+f.database(), readOnlyEnv+"=1")
}

func (f *folder) tryFolder(ctx context.Context, timeout time.Duration, env ...string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("%w: %w", errUntried, err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var said, complaint bytes.Buffer
	child := exec.CommandContext(limited, program)
	child.Env = append(os.Environ(), env...)
	child.Stdout, child.Stderr = &said, &complaint
	child.WaitDelay = time.Second
	// The child dies with the thread that made it; the thread stays while this goroutine holds it. A terminal's signal to its
	// process group is not for the child: its death would count as damage.
	child.SysProcAttr = childAttributes()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = child.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errUntried, ctx.Err())
	}
	if limited.Err() != nil {
		return format.Damaged("a trial did not open and read it within %v", timeout)
	}
	return f.judge(said.String(), err, complaint.String())
}

// judge reads what the trial said.
func (f *folder) judge(said string, exit error, complaint string) error {
	begun := false
	for line := range strings.Lines(said) {
		line = strings.TrimSuffix(line, "\n")
		if number, ok := strings.CutPrefix(line, trialFormat); ok {
			if version, err := strconv.ParseUint(number, 10, 32); err == nil && version != 0 && !format.Readable(uint32(version)) {
				return format.UnreadableVersion(f.dir, uint32(version))
			}
		}
		if reason, ok := strings.CutPrefix(line, trialFault); ok {
			return format.Damaged("%s", reason)
		}
		if reason, ok := strings.CutPrefix(line, trialUnable); ok {
			return fmt.Errorf("%w: %s", errUntried, reason)
		}
		if line == trialPassed {
			return nil
		}
		begun = begun || line == trialBegun
	}
	var status *exec.ExitError
	killed := errors.As(exit, &status) && status.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if !begun || killed {
		return fmt.Errorf("%w: %v", errUntried, exit)
	}
	return format.Damaged("opening it ends the process: %v: %s", exit, firstLine(complaint))
}

// firstLine is what a dying process said first, short enough for a log.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s[:min(len(s), 200)]
}
