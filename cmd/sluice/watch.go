package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// watch reads again and again until ctx ends: a plot where out is a terminal, else a row per value and
// read. An error of the first read ends it; later ones are shown, for a restart is worth watching.
func watch(ctx context.Context, out io.Writer, o getOptions, read func(context.Context) ([]measured, error)) error {
	show := rows(out)
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(out, hideCursor+clearScreen)
		defer fmt.Fprint(out, showCursor+"\n")
		show = screen(file)
	}
	tick := time.NewTicker(o.interval)
	defer tick.Stop()
	for first := true; ; first = false {
		values, err := read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		show(time.Now(), values, err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// shower shows one read: its values, or why there are none.
type shower func(now time.Time, values []measured, err error)

// rows prints "15:04:05  about  value".
func rows(out io.Writer) shower {
	return func(now time.Time, values []measured, err error) {
		stamp := now.Format(time.TimeOnly)
		if err != nil {
			fmt.Fprintf(out, "%s\terror: %s\n", stamp, err)
		}
		for _, v := range values {
			fmt.Fprintf(out, "%s\t%s\t%s\n", stamp, v.about, plainNumber(v.number))
		}
	}
}

const (
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
	clearScreen = "\x1b[2J\x1b[H"
	toTop       = "\x1b[H"
	clearRest   = "\x1b[J"
)

// screen redraws a plot of what it was shown so far, fitted to the terminal.
func screen(terminal *os.File) shower {
	var seen history
	return func(now time.Time, values []measured, err error) {
		width, height, sizeErr := term.GetSize(int(terminal.Fd()))
		if sizeErr != nil {
			width, height = 80, 24
		}
		seen.add(now, values, err, 4*width)
		fmt.Fprint(terminal, toTop+seen.draw(width, height)+clearRest)
	}
}
