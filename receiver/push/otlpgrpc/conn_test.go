package otlpgrpc

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"testing"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"golang.org/x/net/http2"
)

// slow is a socket that takes some bytes of each write.
type slow struct {
	net.Conn
	took bytes.Buffer
}

func (s *slow) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }

func (s *slow) Write(b []byte) (int, error) {
	if n := min(len(b), 10<<10); n < len(b) {
		s.took.Write(b[:n])
		return n, os.ErrDeadlineExceeded
	}
	return s.took.Write(b)
}

// net/http writes again what a client that reads slowly did not take in time. Each byte counts once: else the ends of requests
// are not seen after it.
func TestAWriteThatIsContinuedCountsOnce(t *testing.T) {
	socket := &slow{}
	member, err := connlimit.New("test", connlimit.Limits{MaxReceived: 64 << 10}, slog.New(slog.DiscardHandler)).Enter(socket)
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{Conn: &listener.Conn{Conn: socket}, streams: connlimit.NewStreams(member, false)}
	var client, server bytes.Buffer
	client.WriteString(http2.ClientPreface)
	asks, answers := http2.NewFramer(&client, nil), http2.NewFramer(&server, nil)
	for i := range uint32(100) {
		stream := 2*i + 1
		_ = asks.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, EndStream: true, BlockFragment: make([]byte, 10<<10)})
		if !c.streams.Received(client.Bytes()) {
			t.Fatalf("request %d is refused: those before it have not ended", i)
		}
		client.Reset()
		_ = answers.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, BlockFragment: make([]byte, 20)})
		_ = answers.WriteData(stream, false, make([]byte, 12<<10))
		_ = answers.WriteData(stream, true, make([]byte, 12<<10))
		for rest := server.Bytes(); len(rest) > 0; {
			n, _ := c.Write(rest)
			rest = rest[n:]
		}
		server.Reset()
	}
}
