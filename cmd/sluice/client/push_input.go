package client

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

// inputPatience is how long a line from standard input waits for others to share its datagram, and
// how long lines written before a signal may take to be read.
const inputPatience = 100 * time.Millisecond

// pushInput sends the valid lines of standard input and reports the others, until its end or a
// signal.
func pushInput(cmd *cobra.Command, check *checker, out *lineSender) error {
	ctx, release := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer release()
	// Nothing interrupts the read of a terminal or pipe: after a signal the reader ends with the
	// process, or with its next line.
	left := make(chan struct{})
	defer close(left)
	lines, in := make(chan inputLine, 256), inputReader{}
	go func() {
		defer close(lines) // publishes in.err
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

// streamLines sends lines, each at most inputPatience after it was read. It returns how many were
// invalid, and whether the input ended before ctx.
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

// take adds a valid line. An empty one is ignored.
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

// inputLine is a line without its line break. The text of an oversized line is its beginning.
type inputLine struct {
	text   []byte
	length int
}

// inputReader reads lines of any length.
type inputReader struct{ err error }

// longestRead is above the server's limit. Of a longer line, the beginning is kept for the fault.
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
