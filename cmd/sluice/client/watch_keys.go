package client

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Keys that end a watch. A raw terminal delivers ctrl-C as a key, not as a signal.
const (
	ctrlC = 3
	ctrlD = 4
)

// untilKey returns a context that ends when "q" is pressed, and a function that restores the
// terminal, which must be called. Without a terminal to read from, only signals end the context.
func untilKey(ctx context.Context) (context.Context, func()) {
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
