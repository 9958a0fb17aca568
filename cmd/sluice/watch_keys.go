package main

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Keys that end a watch. A terminal that hands over single keys also hands over what would be a signal.
const (
	ctrlC = 3
	ctrlD = 4
)

// untilKey returns a context that ends when "q" is pressed, and what gives the terminal back, which has to be
// called. Where there is no terminal to read from, signals end it as before.
func untilKey(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	tty, err := os.Open("/dev/tty") // not standard input: a read of this one can be ended
	if err != nil {
		return ctx, cancel
	}
	restore, err := singleKeys(tty)
	if err == nil {
		err = tty.SetReadDeadline(time.Time{}) // no error: it knows deadlines, so closing it ends a read
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
		var key [1]byte
		for {
			if n, err := tty.Read(key[:]); n == 0 || err != nil {
				return
			}
			if k := key[0]; k == 'q' || k == 'Q' || k == ctrlC || k == ctrlD {
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

// errBackground: who touches the terminal from the background is stopped by it.
var errBackground = errors.New("another process reads the terminal")

// singleKeys makes a terminal hand over each key when it is pressed, and returns what undoes that.
func singleKeys(tty *os.File) (restore func(), err error) {
	restore = func() {}
	raw, err := tty.SyscallConn() // Fd would take the deadlines away
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
