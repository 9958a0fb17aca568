package agents

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// framer speaks frames.
type framer struct {
	*http2.Framer
	t     *testing.T
	pings [][8]byte // that are not answered
}

func frames(t *testing.T, conn net.Conn) *framer {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	f := &framer{http2.NewFramer(conn, conn), t, nil}
	_, err := io.WriteString(conn, http2.ClientPreface)
	must(t, errors.Join(err, f.WriteSettings()))
	return f
}

func (s *served) frames() *framer {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	must(s.t, err)
	_ = conn.SetDeadline(time.Now().Add(10 * time.Minute))
	return frames(s.t, conn)
}

// open opens a stream.
func (f *framer) open(id uint32, token string) {
	f.t.Helper()
	var block strings.Builder
	header := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", agentwire.Agents_Report_FullMethodName}, {":authority", "sluice"},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"authorization", "Bearer " + token},
	} {
		_ = header.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	must(f.t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()), EndHeaders: true}))
}

// hello begins a run on a stream.
func (f *framer) hello(id uint32) {
	f.t.Helper()
	text, err := proto.Marshal(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: "a", Run: 1}}})
	must(f.t, err)
	must(f.t, f.WriteData(id, false, append([]byte{0, 0, 0, 0, byte(len(text))}, text...)))
}

// send sends bytes of a stream, in as large frames as there may be.
func (f *framer) send(id uint32, n int) error {
	for part := make([]byte, 16<<10); n > 0; n -= len(part) {
		part = part[:min(n, len(part))]
		if err := f.WriteData(id, false, part); err != nil {
			return err
		}
	}
	return nil
}

// until reads frames up to one that is wanted.
func (f *framer) until(is func(http2.Frame) bool) {
	f.t.Helper()
	for {
		frame, err := f.ReadFrame()
		must(f.t, err)
		if ping, asks := frame.(*http2.PingFrame); asks && !ping.IsAck() {
			f.pings = append(f.pings, ping.Data)
		}
		if is(frame) {
			return
		}
	}
}

// ended answers pings, which may be late, and returns why streams ended before the server has taken all that was sent.
func (f *framer) ended() (why []string) {
	f.t.Helper()
	for _, ping := range f.pings {
		must(f.t, f.WritePing(true, ping))
	}
	f.pings = nil
	must(f.t, f.WriteSettings())
	f.until(func(frame http2.Frame) bool {
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if size, is := frame.Value(http2.SettingInitialWindowSize); is && size > streamWindow {
				f.t.Errorf("streams have a window of %d bytes; want %d", size, streamWindow)
			}
			return frame.IsAck()
		case *http2.RSTStreamFrame:
			why = append(why, frame.ErrCode.String())
		}
		return false
	})
	return why
}

// A client that seems to be far away, because it answers pings late, has no larger window than others: gRPC keeps what it sends of
// streams that nobody reads.
func TestWindowsDoNotGrow(t *testing.T) {
	parts := durableTable().parts()
	asked, release := make(chan struct{}), make(chan struct{})
	parts.Authenticate = func(_ context.Context, token string) (string, string, string, error) {
		if token != "good" {
			close(asked)
			<-release
			return "", "", "the token is invalid", nil
		}
		return "a", "", "", nil
	}
	s := serve(t, "127.0.0.1:0", parts)
	defer close(release)
	f := s.frames()
	f.open(1, "good")
	f.hello(1)
	f.until(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameData }) // the welcome
	must(t, f.send(3, 8<<20))                                                               // of no stream
	f.ended()
	f.open(5, "unknown")
	<-asked
	must(t, f.send(5, streamWindow))
	if why := f.ended(); len(why) > 0 {
		t.Errorf("within its window, the stream ended: %v", why)
	}
	must(t, f.send(5, 1))
	if why := f.ended(); len(why) != 1 || why[0] != http2.ErrCodeFlowControl.String() {
		t.Errorf("beyond its window, the stream ended: %v", why)
	}
}

// The connection of a client without a token ends once it has sent much. What an agent sends behind its token has no such bound.
func TestStrangersSendLittle(t *testing.T) {
	parts := durableTable().parts()
	parts.Authenticate = func(_ context.Context, token string) (string, string, string, error) {
		if token != "good" {
			return "", "", "the token is invalid", nil
		}
		return "a", "", "", nil
	}
	s := serve(t, "127.0.0.1:0", parts)
	good := s.dial(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer good"))
	hello := &agentwire.Hello{Protocol: 1, Run: 1, Version: strings.Repeat("x", 2*maxReceived)}
	good.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: hello}})
	_, err := good.Recv()
	must(t, err)
	f := s.frames()
	f.open(1, "bad")
	f.until(func(frame http2.Frame) bool { return frame.Header().Type == http2.FrameHeaders }) // the answer
	err = errors.Join(f.send(3, 16*maxReceived), f.WriteSettings())                            // of no stream
	for err == nil {
		var frame http2.Frame
		if frame, err = f.ReadFrame(); err == nil && frame.Header().Flags.Has(http2.FlagSettingsAck) && frame.Header().Type == http2.FrameSettings {
			t.Fatalf("a stranger sent %d bytes", 16*maxReceived)
		}
	}
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
		t.Error("the connection is open")
	}
}

// A client that sends on and reads nothing is not found by pings, but its streams stay until it reads their end.
func TestDeafClientsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Listen(Config{Address: "127.0.0.1:0", Insecure: true, MaxBytes: DefaultConfig().MaxBytes}, newTable().parts())
		must(t, err)
		crowd.EndsDeafClients(t, &s.listener.Listener, s.Run, 2*pingPatience)
	})
}
