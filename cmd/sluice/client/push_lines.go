package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/spf13/cobra"
)

// packetBytes bounds a datagram: it fits into an Ethernet frame.
const packetBytes = 1432

// pushLines sends the lines given as arguments, once all are checked, or streams standard input.
func pushLines(cmd *cobra.Command, o pushOptions, args []string, faults []error) error {
	faults = append(faults, o.onlyOverHTTP(cmd)...)
	var address config.Faults
	address.AddUnlessHostPort("--statsd", o.statsd, "127.0.0.1:8125")
	faults = append(faults, address...)
	if len(args) == 0 {
		faults = append(faults, errNothingToPush)
	}
	check := newChecker(o.dialect)
	fromInput := slices.Equal(args, []string{"-"})
	if !fromInput {
		faults = append(faults, check.all(args)...)
	}
	if err := command.Usage(faults...); err != nil {
		return err
	}
	out, err := dialLines(o.statsd)
	if err != nil {
		return err
	}
	defer out.conn.Close()
	if fromInput {
		return pushInput(cmd, check, out)
	}
	for _, line := range args {
		out.add([]byte(line))
	}
	return out.finish(cmd.OutOrStdout())
}

// all checks lines of which all or none are sent.
func (c *checker) all(lines []string) []error {
	var faults []error
	for _, line := range lines {
		if err := c.line([]byte(line)); err != nil {
			faults = append(faults, err)
		}
	}
	if bad := len(faults); bad > 0 && len(lines) > 1 {
		faults = append(faults, fmt.Errorf("nothing was sent: %s of %d cannot be", countLines(bad), len(lines)))
	} else if bad > 0 {
		faults = append(faults, errors.New("nothing was sent"))
	}
	return faults
}

// checker reads lines as the server does.
type checker struct{ scanner *statsd.Scanner }

func newChecker(dialect statsd.Dialect) *checker {
	options := statsd.DefaultOptions()
	options.Dialect = dialect
	return &checker{statsd.NewScanner(options)}
}

// line returns the first fault of a line, with its position.
func (c *checker) line(line []byte) error {
	c.scanner.Reset(line)
	found := false
	for c.scanner.Next() {
		found = true
		if f := c.scanner.Fault; f.Reason != metric.Applied {
			return fmt.Errorf("%s: %s (%s, at byte %d)", quote(line), f.Explain(c.scanner.Line()), f.Reason, f.Offset)
		}
		if err := checkName(line, string(c.scanner.Sample.Name)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s: empty line", quote(line))
	}
	return nil
}

// checkName rejects the names that the server rejects: no reader could ask for them.
func checkName(line []byte, name string) error {
	reason := metric.CheckName(name)
	switch {
	case reason == metric.Applied:
		return nil
	case reason == metric.TooLong:
		return fmt.Errorf("%s: the name has %d bytes; must have at most %d (%s)", quote(line), len(name),
			metric.MaxNameLength, reason)
	case metric.HasReservedSuffix(name):
		return fmt.Errorf("%s: the name ends in a stat or a window, so readers would ask for %q; must be another name (%s)",
			quote(line), metric.ParseExpression(name).Name, reason)
	}
	return fmt.Errorf(`%s: no metrics API can ask for the name; must be without "%%", "?" and control characters, and not ".", "..", "status" or "finalize" (%s)`, quote(line), reason)
}

// quotedBytes bounds the part of a line that its fault quotes.
const quotedBytes = 200

func quote(line []byte) string {
	if len(line) > quotedBytes {
		return fmt.Sprintf("%q…", line[:quotedBytes])
	}
	return fmt.Sprintf("%q", line)
}

// lineSender packs lines into datagrams.
type lineSender struct {
	conn   net.Conn
	packet []byte
	packed int   // lines in the packet
	sent   int   // lines in the packet that was sent last, unless they are lost
	lines  int   // all lines
	lost   int   // of them, those of packets that were not sent, or came to a closed port
	err    error // the first one, other than of a closed port
}

func dialLines(address string) (*lineSender, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return nil, fmt.Errorf("--statsd: %w", err)
	}
	return &lineSender{conn: conn}, nil
}

func (s *lineSender) add(line []byte) {
	if len(s.packet) > 0 && len(s.packet)+1+len(line) > packetBytes {
		s.flush()
	}
	if len(s.packet) > 0 {
		s.packet = append(s.packet, '\n')
	}
	s.packet = append(s.packet, line...)
	s.packed++
	s.lines++
}

func (s *lineSender) flush() {
	if len(s.packet) == 0 {
		return
	}
	_, err := s.conn.Write(s.packet)
	if errors.Is(err, syscall.ECONNREFUSED) { // the packet before came to a closed port, and this one is not sent
		s.lose()
		_, err = s.conn.Write(s.packet)
	}
	s.packet, s.packed, s.sent = s.packet[:0], 0, s.packed
	if err == nil {
		return
	}
	s.lose()
	if s.err == nil && !errors.Is(err, syscall.ECONNREFUSED) {
		s.err = err
	}
}

// lose counts the lines of the packet that was sent last as lost.
func (s *lineSender) lose() { s.lost, s.sent = s.lost+s.sent, 0 }

// refusalWait is how long the kernel may take to report that a local port is closed.
const refusalWait = 20 * time.Millisecond

// finish sends the rest and prints the number of lines. It fails if the network reports that the port is
// closed, or was when a packet came. Of hosts far away, it may report it of a later packet, and of a part.
func (s *lineSender) finish(out io.Writer) error {
	s.flush()
	_ = s.conn.SetReadDeadline(time.Now().Add(refusalWait))
	var one [1]byte
	if _, err := s.conn.Read(one[:]); errors.Is(err, syscall.ECONNREFUSED) {
		s.lose()
	}
	to := s.conn.RemoteAddr()
	switch {
	case s.err != nil:
		return fmt.Errorf("%s: %w; lost about %s of %d", to, s.err, countLines(s.lost), s.lines)
	case s.lost > 0 && s.lost == s.lines:
		return fmt.Errorf("nothing listens on %s (udp)", to)
	case s.lost > 0:
		return fmt.Errorf("lost about %s of %d: nothing listened on %s (udp) when they came", countLines(s.lost), s.lines, to)
	}
	fmt.Fprintf(out, "sent %s to %s\n", countLines(s.lines), to)
	return nil
}

func countLines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

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
func streamLines(ctx context.Context, lines <-chan inputLine, check *checker, out *lineSender,
	errs io.Writer) (bad int, ended bool) {
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
