package loadtest

import (
	"testing"

	"github.com/cactus/go-statsd-client/v5/statsd"
)

// oneLine is a socket that keeps the last datagram.
type oneLine struct{ sent string }

func (o *oneLine) Send(b []byte) (int, error) { o.sent = string(b); return len(b), nil }

func (o *oneLine) Close() error { return nil }

// The client sends the prepared lines byte for byte.
func TestClientSendsTheSameLines(t *testing.T) {
	socket := &oneLine{}
	client, err := statsd.NewClientWithSender(socket, "", statsd.SuffixOctothorpe)
	must(t, err)
	for series, i := clientSeries, 0; i < series.size(); i++ {
		want := string(series.appendLine(nil, i, nil))
		if err := series.call(client, i); err != nil || socket.sent != want {
			t.Fatalf("client sent %q (%v), want %q", socket.sent, err, want)
		}
	}
}

func TestCountingSenderCountsLines(t *testing.T) {
	c := &countingSender{Sender: &oneLine{}, sent: packing{}}
	for _, datagram := range []string{"a:1|c", "a:1|c\nb:1|c", "c:1|c\nd:1|c"} {
		if _, err := c.Send([]byte(datagram)); err != nil {
			t.Fatal(err)
		}
	}
	if c.sent.lines() != 5 || c.sent.datagrams() != 3 {
		t.Errorf("%d lines in %d datagrams: want 5 in 3", c.sent.lines(), c.sent.datagrams())
	}
}

// datagrams returns the number of all datagrams.
func (p packing) datagrams() (sum int64) {
	for _, datagrams := range p {
		sum += datagrams
	}
	return sum
}
