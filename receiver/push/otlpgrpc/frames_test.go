package otlpgrpc

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"golang.org/x/net/http2"
)

// stream is what a client sends, and how its pings are judged.
type stream struct {
	bytes.Buffer
	*http2.Framer
	frames frames
	now    time.Time
}

func newStream() *stream {
	s := &stream{frames: newFrames(time.Unix(0, 0)), now: time.Unix(0, 0)}
	s.Framer = http2.NewFramer(&s.Buffer, nil)
	s.WriteString(http2.ClientPreface)
	return s
}

// sent judges what was sent since, in pieces of some bytes.
func (s *stream) sent(piece int) bool {
	ok := true
	for s.Len() > 0 && ok {
		ok = s.frames.allow(s.Next(piece), func() time.Time { return s.now })
	}
	return ok
}

// Pings are counted however the bytes are cut, and answers to ours are none. A call, or a second, earns one.
func TestPingsAreBounded(t *testing.T) {
	for _, piece := range []int{1, 7, 9, 1 << 20} {
		s := newStream()
		_ = s.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14})
		_ = s.WriteData(1, false, bytes.Repeat([]byte{0, 0, 0, byte(http2.FramePing)}, 1000)) // data are no frames
		for range 1000 {
			_ = s.WritePing(true, [8]byte{})
		}
		for range maxPings {
			_ = s.WritePing(false, [8]byte{})
		}
		if !s.sent(piece) {
			t.Fatalf("pieces of %d: %d pings are too many", piece, maxPings)
		}
		for range 1000 {
			_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("x"), EndHeaders: true})
			_ = s.WritePing(false, [8]byte{})
		}
		if !s.sent(piece) {
			t.Fatalf("pieces of %d: one ping with each call is too many", piece)
		}
		_ = s.WritePing(false, [8]byte{})
		if s.sent(piece) {
			t.Fatalf("pieces of %d: one more is allowed", piece)
		}
	}
	s := newStream()
	for second := range 10 * maxPings {
		s.now = time.Unix(int64(second), 0)
		_ = s.WritePing(false, [8]byte{})
		if !s.sent(1 << 20) {
			t.Fatalf("one a second is too many after %d", second)
		}
	}
}

// FuzzMessage: whatever a client sends, a message is what the five bytes before it say, or an error.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 'a', 'b'}, "")
	f.Add([]byte{1, 0, 0, 0, 1, 'a'}, "gzip")
	f.Add([]byte{2, 0xff, 0xff, 0xff, 0xff}, "zstd")
	f.Fuzz(func(t *testing.T, sent []byte, coding string) {
		m := message{from: bytes.NewReader(sent), coding: coding}
		size, used, err := m.head()
		var read []byte
		if err == nil {
			var u body.Buffer
			err = u.Fill(&m, &body.Budget{Max: 1 << 30}, 1<<20)
			read = u.B
		}
		switch fault := new(httpserver.Fault); {
		case err == nil && (len(read) != size || !bytes.Equal(read, sent[5:]) || sent[0] > 1 || (sent[0] == 1) != (used != "")):
			t.Fatalf("%d bytes of %d in %q", len(read), size, used)
		case err != nil && !errors.As(err, &fault) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, body.ErrTooLarge):
			t.Fatal(err)
		}
	})
}
