package receiver

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// names applies everything and remembers the names.
type names struct {
	knowsNone
	Applier
	seen []string
}

func (n *names) Apply(s *metric.Sample) metric.Reason {
	n.seen = append(n.seen, string(s.Name))
	return metric.Applied
}

func testIntake(maxLine int) (*ingester, *names) {
	seen := &names{}
	return &ingester{
		scanner:    statsd.NewScanner(statsd.Options{MaxLine: maxLine, MaxTags: 10}),
		applier:    seen,
		account:    new(ledger.Account),
		rejections: newRejectionLog(slog.New(slog.NewTextHandler(io.Discard, nil)), "test"),
	}, seen
}

// pour feeds a stream in pieces.
func pour(s framer, stream []byte, sizes *rand.Rand) error {
	for len(stream) > 0 {
		n := copy(s.readBuffer(), stream[:min(len(stream), 1+sizes.IntN(20))])
		if sizes.IntN(8) == 0 {
			n = copy(s.readBuffer(), stream)
		}
		if err := s.add(n); err != nil {
			return err
		}
		stream = stream[n:]
	}
	return nil
}

// FuzzLines: however a stream comes in pieces, it says the same as the whole.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"a:1|c\nb:2|c", "a:1|c\r\n\r\n", "a:1|c\n" + strings.Repeat("x", 40) + "\nb:1|c", "a", "\n"} {
		f.Add([]byte(s), uint64(1))
	}
	const maxLine = 24
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		whole, want := testIntake(maxLine)
		whole.applyPacket(stream)
		in, got := testIntake(maxLine)
		l := newLineFramer(in, maxLine)
		l.buffer = make([]byte, maxLine+3)
		must(t, pour(l, stream, rand.New(rand.NewPCG(seed, 0))))
		l.end(true)
		if !slices.Equal(got.seen, want.seen) {
			t.Fatalf("in pieces %q, whole %q", got.seen, want.seen)
		}
		for _, r := range metric.Reasons() {
			if got, want := in.account.Rejected(r), whole.account.Rejected(r); got != want {
				t.Fatalf("%v: in pieces %d, whole %d", r, got, want)
			}
		}
		if in.bytes != uint64(len(stream)) {
			t.Fatalf("%d bytes counted of %d", in.bytes, len(stream))
		}
	})
}

// The longest line is applied, however it is cut into reads; a line of one byte more is rejected
// once.
func TestLinesOfTheGreatestLength(t *testing.T) {
	const maxLine = 24
	for _, newline := range []string{"\n", "\r\n"} {
		for length := maxLine - 1; length <= maxLine+3; length++ {
			line := strings.Repeat("n", length-4) + ":1|c" + newline
			in, got := testIntake(maxLine)
			l := newLineFramer(in, maxLine)
			for _, b := range []byte(line + line) {
				l.readBuffer()[0] = b
				must(t, l.add(1))
			}
			if applied := len(got.seen); (applied == 2) != (length <= maxLine) {
				t.Errorf("%d bytes and %q: %d applied of 2", length, newline, applied)
			}
			if refused := in.account.Rejected(metric.TooLong); int(refused) != 2-len(got.seen) {
				t.Errorf("%d bytes and %q: %d applied and %d refused", length, newline, len(got.seen), refused)
			}
		}
	}
}

// FuzzFrames: framed packets are recovered; any other bytes neither panic nor overrun the buffer.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("a:1|c\nb:1|c\x00c:1|c"), []byte(frame("a:1|c")), uint64(1))
	f.Add([]byte(strings.Repeat("n", 60)+":1|c"), []byte{}, uint64(1)) // the longest packet
	f.Add([]byte("\x00\x00"), []byte("\x05\x00\x00\x00a"), uint64(2))
	f.Fuzz(func(t *testing.T, packets, garbage []byte, seed uint64) {
		const maxPacket = 64
		whole, want := testIntake(maxPacket)
		var stream []byte
		for _, packet := range bytes.Split(packets, []byte{0}) {
			if len(packet) <= maxPacket {
				whole.applyPacket(packet)
				stream = append(stream, frame(string(packet))...)
			}
		}
		sizes := rand.New(rand.NewPCG(seed, 0))
		in, got := testIntake(maxPacket)
		split := newPacketFramer(in, maxPacket)
		must(t, pour(split, stream, sizes))
		if !slices.Equal(got.seen, want.seen) {
			t.Fatalf("in pieces %q, whole %q", got.seen, want.seen)
		}
		_ = pour(split, garbage, sizes)
		split.end(false)
	})
}

// Clients of a Unix stream socket send either lines (python3-statsd, etsy's own test suite) or
// DogStatsD's packets.
func TestUnixStreamFraming(t *testing.T) {
	f := serve(t, testConfig(unixStream(t)))
	lines, packets, short := f.dial(0), f.dial(0), f.dial(0)
	f.send(lines, "a:1")
	f.send(lines, "|c\na:2|c\na:4|c") // python3-statsd ends each send with a newline; the last line may lack one
	f.send(packets, frame("b:1|c\nb:2|c"))
	f.send(packets, frame("b:4|c"))
	f.send(short, "c:")
	f.eventually("whole lines and packets", func() bool { return f.recorder.sum("a") == 3 && f.recorder.sum("b") == 7 })
	f.send(short, "1|c\n")
	f.eventually("a first read of two bytes", func() bool { return f.recorder.sum("c") == 1 })
	_ = lines.Close()
	f.eventually("the last line", func() bool { return f.recorder.sum("a") == 7 })
	if n := f.rejected(metric.TooLong); n != 0 {
		t.Errorf("%d rejected as too long: %s", n, f.log)
	}
}

// A length that announces too much still ends the connection, unless it is text.
func TestUnixStreamLengthThatIsNoText(t *testing.T) {
	f := serve(t, testConfig(unixStream(t)))
	conn := f.dial(0)
	f.send(conn, "\x00\x00\x00\x05a:1|c") // big end first
	if !closedByServer(conn) {
		t.Error("the connection stays open")
	}
	f.eventually("refused", func() bool { return f.rejected(metric.TooLong) == 1 })
}

// The next stream on the same worker selects its framing anew.
func TestUnixStreamAgain(t *testing.T) {
	in, got := testIntake(64)
	split := newUnixFramer(in, 64, 64)
	sizes := rand.New(rand.NewPCG(1, 1))
	for _, stream := range []string{"a:1|c\n", frame("b:1|c"), "c:1|c\nd:1|c", frame("e:1|c")} {
		must(t, pour(split, []byte(stream), sizes))
		split.end(true)
		split.reset()
	}
	if want := strings.Fields("a b c d e"); !slices.Equal(got.seen, want) {
		t.Errorf("saw %q, want %q", got.seen, want)
	}
}

// FuzzUnixSplit: a stream that begins as text is split as one of lines is, any other as one of
// packets is.
func FuzzUnixSplit(f *testing.F) {
	f.Add([]byte("a:1|c\nb:1|c"), uint64(1))
	f.Add([]byte(frame("a:1|c")), uint64(2))
	f.Add([]byte("\n\na:1|c"), uint64(3))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		const most = 64
		in, got := testIntake(most)
		other, want := testIntake(most)
		plain := framer(newPacketFramer(other, most))
		if len(stream) >= frameHeader && !bytes.ContainsFunc(stream[:frameHeader], func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }) &&
			bytes.IndexByte(stream[:frameHeader], 0x7f) < 0 {
			plain = newLineFramer(other, most)
		}
		a := pour(newUnixFramer(in, most, most), stream, rand.New(rand.NewPCG(seed, 0)))
		b := pour(plain, stream, rand.New(rand.NewPCG(seed, 0)))
		if (a == nil) != (b == nil) {
			t.Fatalf("faults %v and %v", a, b)
		}
		if a == nil && !slices.Equal(got.seen, want.seen) {
			t.Fatalf("saw %q, want %q", got.seen, want.seen)
		}
	})
}
