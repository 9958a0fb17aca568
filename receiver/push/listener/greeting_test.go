package listener

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"

	"github.com/sluice-metrics/sluice/internal/connlimit"
)

// flood is a socket whose client sends without end.
type flood struct{ net.Conn }

func (flood) Read(b []byte) (int, error) { return len(b), nil }
func (flood) CloseWrite() error          { return nil }

// TLS keeps messages until they are whole, also after the handshake.
func TestMessagesAfterTheHandshakeHaveABound(t *testing.T) {
	g := &greeting{socket: flood{}}
	of := &Conn{Conn: flood{}, below: g, tls: new(tls.Conn)}
	g.of = of
	of.shaken.Store(true)
	b := make([]byte, 1<<20)
	for range 100 {
		if n, err := g.Read(b); err != nil || n > connlimit.ReadAtOnce {
			t.Fatalf("%d bytes are read at once: %v", n, err)
		}
		_, _ = of.Read(b[:1]) // its reader gets some
	}
	n := 0
	for err := error(nil); err == nil && n < len(b); {
		var more int
		more, err = g.Read(b)
		n += more
	}
	if n > connlimit.MaxSilent {
		t.Errorf("%d bytes that no reader got", n)
	}
}

// What is written before the handshake, as fasthttp's refusal is where it accepts connections, waits for no client.
func TestNothingIsWrittenBeforeTheHandshake(t *testing.T) {
	near, far := net.Pipe() // whose other end neither reads nor writes
	defer near.Close()
	defer far.Close()
	over := tls.Server(near, new(tls.Config))
	c := &Conn{Conn: over, tls: over}
	if n, err := c.Write([]byte("HTTP/1.1 503 Service Unavailable\r\n")); n > 0 || !errors.Is(err, errUnshaken) {
		t.Errorf("%d bytes are written, %v", n, err)
	}
}
