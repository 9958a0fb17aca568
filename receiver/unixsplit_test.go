package receiver

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// Clients of a Unix stream socket send either lines (python3-statsd, etsy's own test suite) or DogStatsD's packets.
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

// The next stream on the same worker is told apart anew.
func TestUnixStreamAgain(t *testing.T) {
	in, got := testIntake(64)
	split := newUnixSplit(in, 64, 64)
	sizes := rand.New(rand.NewPCG(1, 1))
	for _, stream := range []string{"a:1|c\n", frame("b:1|c"), "c:1|c\nd:1|c", frame("e:1|c")} {
		if err := pour(split, []byte(stream), sizes); err != nil {
			t.Fatal(err)
		}
		split.end(true)
		split.reset()
	}
	if want := strings.Fields("a b c d e"); !slices.Equal(got.seen, want) {
		t.Errorf("saw %q, want %q", got.seen, want)
	}
}

// FuzzUnixSplit: a stream that begins as text is split as one of lines is, any other as one of packets is.
func FuzzUnixSplit(f *testing.F) {
	f.Add([]byte("a:1|c\nb:1|c"), uint64(1))
	f.Add([]byte(frame("a:1|c")), uint64(2))
	f.Add([]byte("\n\na:1|c"), uint64(3))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		const most = 64
		in, got := testIntake(most)
		other, want := testIntake(most)
		plain := splitter(newFrames(other, most))
		if len(stream) >= frameHeader && !bytes.ContainsFunc(stream[:frameHeader], func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }) &&
			bytes.IndexByte(stream[:frameHeader], 0x7f) < 0 {
			plain = newLines(other, most)
		}
		a := pour(newUnixSplit(in, most, most), stream, rand.New(rand.NewPCG(seed, 0)))
		b := pour(plain, stream, rand.New(rand.NewPCG(seed, 0)))
		if (a == nil) != (b == nil) {
			t.Fatalf("faults %v and %v", a, b)
		}
		if a == nil && !slices.Equal(got.seen, want.seen) {
			t.Fatalf("saw %q, want %q", got.seen, want.seen)
		}
	})
}
