package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/metric"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// watch reads repeatedly until ctx ends. It draws a plot on a terminal that can move its cursor,
// and prints a row per value and read elsewhere. An error of the first read ends it, unless the
// metric does not exist yet; later errors are shown, because the server may come back.
func watch(ctx context.Context, out io.Writer, interval time.Duration,
	read func(context.Context) ([]measured, error)) error {
	show := rows(out)
	if file, ok := out.(*os.File); ok && isScreen(file) {
		var giveBack func()
		ctx, giveBack = untilKey(ctx, func(key string) bool { return strings.Contains(endKeys, key) })
		fmt.Fprint(out, hideCursor+clearScreen)
		defer func() {
			giveBack()
			fmt.Fprint(out, showCursor+"\n")
		}()
		show = screen(file)
	}
	return repeat(ctx, interval, func(first bool) error {
		values, err := read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if first && err != nil && !isAbsent(err) {
			return err
		}
		show(time.Now(), values, err)
		return nil
	})
}

// watchJSON prints each response of the API as one line. Errors are printed to errs.
func watchJSON(ctx context.Context, out, errs io.Writer, interval time.Duration,
	get func(context.Context) ([]byte, error)) error {
	return repeat(ctx, interval, func(first bool) error {
		body, err := get(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if first && err != nil && !isAbsent(err) {
			return err
		}
		var line bytes.Buffer
		if err == nil {
			err = json.Compact(&line, body)
		}
		if err != nil {
			fmt.Fprintf(errs, "%s\t%s\n", time.Now().Format(time.TimeOnly), metric.Visible(because(err)))
			return nil
		}
		line.WriteByte('\n')
		_, err = out.Write(line.Bytes())
		return err
	})
}

// repeat calls once now and after every interval, until ctx ends or once fails.
func repeat(ctx context.Context, interval time.Duration, once func(first bool) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for first := true; ; first = false {
		if err := once(first); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// because is the reason why there is no value. An unreachable server does not mean that the metric
// is absent.
func because(err error) string {
	var silent *unreachable
	switch {
	case isAbsent(err):
		return "absent: " + err.Error()
	case errors.As(err, &silent):
		return "unreachable: " + err.Error()
	}
	return "error: " + err.Error()
}

// shower shows one read: its values, or its error.
type shower func(now time.Time, values []measured, err error)

// rows prints a row per value under a header, in aligned columns.
func rows(out io.Writer) shower {
	rows, headed := alignedRows{out: out}, false
	return func(now time.Time, values []measured, err error) {
		var more [][]string
		if !headed {
			more, headed = append(more, []string{"TIME", "OBJECT/LABELS", "VALUE"}), true
		}
		stamp := now.Format(time.TimeOnly)
		if err != nil {
			more = append(more, []string{stamp, "-", metric.Visible(because(err))})
		}
		for _, v := range values {
			more = append(more, []string{stamp, metric.Visible(v.about), v.print()})
		}
		_ = rows.print(more) // the reader of a pipe went away: the next signal ends the process
	}
}

const (
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
	clearScreen = "\x1b[2J\x1b[H"
	toTop       = "\x1b[H"
	clearRest   = "\x1b[J"
)

// screen draws a plot of all reads so far, fitted to the terminal.
func screen(terminal *os.File) shower {
	var seen watched
	return func(now time.Time, values []measured, err error) {
		width, height := screenSize(terminal)
		seen.add(now, values, err, 4*width)
		fmt.Fprint(terminal, toTop+seen.draw(width, height)+clearRest)
	}
}

// isScreen reports whether a file is a terminal that can move its cursor.
func isScreen(file *os.File) bool {
	return term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

func screenSize(file *os.File) (width, height int) {
	return command.TerminalSize(term.GetSize(int(file.Fd())))
}

// endKeys end what follows: q, ctrl-C and ctrl-D. A raw terminal delivers ctrl-C as a key, not as a signal.
const endKeys = "qQ\x03\x04"

// untilKey returns a context that ends at a key of which press says so, and a function that restores the
// terminal, which must be called. Without a terminal to read from, only signals end the context.
func untilKey(ctx context.Context, press func(key string) (ends bool)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	tty, err := os.Open("/dev/tty") // unlike standard input, its reads can be interrupted
	if err != nil {
		return ctx, cancel
	}
	restore, err := singleKeys(tty)
	if err == nil {
		err = tty.SetReadDeadline(time.Time{}) // no error: it supports deadlines, so a read can be interrupted
	}
	if err != nil {
		restore()
		_ = tty.Close()
		return ctx, cancel
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		var key [8]byte // an arrow is three bytes
		for {
			if n, err := tty.Read(key[:]); n == 0 || err != nil || press(string(key[:n])) {
				return
			}
		}
	}()
	return ctx, func() {
		restore()
		_ = tty.SetReadDeadline(time.Now())
		<-done
		_ = tty.Close()
	}
}

// errBackground: the kernel stops background processes that change the terminal.
var errBackground = errors.New("another process reads the terminal")

// singleKeys makes a terminal deliver each key at once, and returns the function that undoes it.
func singleKeys(tty *os.File) (restore func(), err error) {
	restore = func() {}
	raw, err := tty.SyscallConn() // Fd would disable deadlines
	if err != nil {
		return restore, err
	}
	var before *term.State
	controlErr := raw.Control(func(fd uintptr) {
		var front int
		if front, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP); err == nil && front != unix.Getpgrp() {
			err = errBackground
		}
		if err == nil {
			before, err = term.MakeRaw(int(fd))
		}
	})
	if controlErr != nil {
		return restore, controlErr
	}
	if err != nil {
		return restore, err
	}
	return func() { _ = raw.Control(func(fd uintptr) { _ = term.Restore(int(fd), before) }) }, nil
}
