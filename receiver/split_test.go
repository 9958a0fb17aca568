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
	Applier
	seen []string
}

func (n *names) Apply(s *metric.Sample) metric.Reason {
	n.seen = append(n.seen, string(s.Name))
	return metric.Applied
}

func testIntake(maxLine int) (*intake, *names) {
	seen := &names{}
	return &intake{
		scanner:    statsd.NewScanner(statsd.Options{MaxLine: maxLine, MaxTags: 10}),
		applier:    seen,
		account:    new(ledger.Account),
		complaints: newComplaints(slog.New(slog.NewTextHandler(io.Discard, nil)), "test"),
	}, seen
}

// pour feeds a stream in pieces.
func pour(s splitter, stream []byte, sizes *rand.Rand) error {
	for len(stream) > 0 {
		n := copy(s.space(), stream[:min(len(stream), 1+sizes.IntN(20))])
		if sizes.IntN(8) == 0 {
			n = copy(s.space(), stream)
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
		whole.take(stream)
		in, got := testIntake(maxLine)
		l := newLines(in, maxLine)
		l.buffer = make([]byte, maxLine+3)
		if err := pour(l, stream, rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatal(err)
		}
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

// The longest line comes through in any pieces; one byte more is refused, once.
func TestLinesOfTheGreatestLength(t *testing.T) {
	const maxLine = 24
	for _, newline := range []string{"\n", "\r\n"} {
		for length := maxLine - 1; length <= maxLine+3; length++ {
			line := strings.Repeat("n", length-4) + ":1|c" + newline
			in, got := testIntake(maxLine)
			l := newLines(in, maxLine)
			for _, b := range []byte(line + line) {
				l.space()[0] = b
				if err := l.add(1); err != nil {
					t.Fatal(err)
				}
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

// FuzzFrames: packets come out as they were put in; any other bytes neither panic nor overrun.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("a:1|c\nb:1|c\x00c:1|c"), []byte(frame("a:1|c")), uint64(1))
	f.Add([]byte("\x00\x00"), []byte("\x05\x00\x00\x00a"), uint64(2))
	f.Fuzz(func(t *testing.T, packets, garbage []byte, seed uint64) {
		const maxPacket = 64
		whole, want := testIntake(maxPacket)
		var stream []byte
		for _, packet := range bytes.Split(packets, []byte{0}) {
			if len(packet) <= maxPacket {
				whole.take(packet)
				stream = append(stream, frame(string(packet))...)
			}
		}
		sizes := rand.New(rand.NewPCG(seed, 0))
		in, got := testIntake(maxPacket)
		split := newFrames(in, maxPacket)
		if err := pour(split, stream, sizes); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.seen, want.seen) {
			t.Fatalf("in pieces %q, whole %q", got.seen, want.seen)
		}
		_ = pour(split, garbage, sizes)
		split.end(false)
	})
}
