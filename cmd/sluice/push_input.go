package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/spf13/cobra"
)

// inputPatience is how long a line from standard input waits for others to share its datagram. After a signal, it
// is how long what was written before may take to be read.
const inputPatience = 100 * time.Millisecond

// pushInput sends the good lines of standard input and names the others, until it ends or a signal comes.
func pushInput(cmd *cobra.Command, check *checker, out *lineSender) error {
	ctx, release := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer release()
	// Nothing interrupts a read of a terminal or a pipe: after a signal the reader ends with the process, or with its
	// next line.
	left := make(chan struct{})
	defer close(left)
	lines, in := make(chan inputLine, 256), inputReader{}
	go func() {
		defer close(lines) // and in.err is there for who sees it
		in.err = in.read(cmd.InOrStdin(), lines, left)
	}()
	bad, ended := streamLines(ctx, lines, check, out, cmd.ErrOrStderr())
	var faults []error
	if ended && in.err != nil {
		faults = append(faults, fmt.Errorf("standard input: %w", in.err))
	}
	faults = append(faults, out.finish(cmd.OutOrStdout()))
	if bad > 0 {
		faults = append(faults, fmt.Errorf("%s not sent", countLines(bad)))
	}
	return errors.Join(faults...)
}

// streamLines sends lines, none later than inputPatience after it came. It tells how many were bad, and whether the
// lines came to their end; they do not where ctx did before.
func streamLines(ctx context.Context, lines <-chan inputLine, check *checker, out *lineSender, errs io.Writer) (bad int, ended bool) {
	send := time.NewTicker(inputPatience)
	defer send.Stop()
	stop, last := ctx.Done(), (<-chan time.Time)(nil)
	for number := 1; ; {
		select {
		case line, more := <-lines:
			if !more {
				return bad, true
			}
			if err := out.take(check, line); err != nil {
				fmt.Fprintf(errs, "line %d: %s\n", number, err)
				bad++
			}
			number++
		case <-send.C:
			out.flush()
		case <-stop:
			stop, last = nil, time.After(inputPatience)
		case <-last:
			return bad, false
		}
	}
}

// take adds a line that is good. One that is empty is neither good nor bad.
func (s *lineSender) take(check *checker, line inputLine) error {
	if line.length > len(line.text) {
		return fmt.Errorf("%s: the line has %d bytes; must have at most %d (%s)",
			quote(line.text), line.length, statsd.DefaultOptions().MaxLine, metric.TooLong)
	}
	if len(line.text) == 0 {
		return nil
	}
	if err := check.line(line.text); err != nil {
		return err
	}
	s.add(line.text)
	return nil
}

// inputLine is a line without its end. Of one that no server takes the text is the beginning.
type inputLine struct {
	text   []byte
	length int
}

// inputReader reads lines of any length.
type inputReader struct{ err error }

// longestRead is more than the longest line that the server takes: of what does not fit the beginning is enough.
const longestRead = 64 << 10

func (r *inputReader) read(in io.Reader, lines chan<- inputLine, left <-chan struct{}) error {
	for input := bufio.NewReaderSize(in, longestRead); ; {
		text, err := input.ReadSlice('\n')
		line := inputLine{text: slices.Clone(text)}
		cut := 0
		for errors.Is(err, bufio.ErrBufferFull) {
			text, err = input.ReadSlice('\n')
			cut += len(withoutEnd(text))
		}
		line.text = withoutEnd(line.text)
		line.length = len(line.text) + cut
		if line.length > 0 || err == nil {
			select {
			case lines <- line:
			case <-left:
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func withoutEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}
