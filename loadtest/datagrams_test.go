package loadtest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"
)

func TestDatagrams(t *testing.T) {
	for _, s := range lineScenarios {
		t.Run(s.Name, func(t *testing.T) {
			load := s.load()
			for i, packet := range load.packets {
				if lines := bytes.Count(packet, []byte{'\n'}) + 1; lines != s.PerDatagram || load.lines[i] != lines {
					t.Fatalf("datagram %d has %d lines and says %d: want %d", i, lines, load.lines[i], s.PerDatagram)
				}
				if len(packet) > maxDatagram || packet[len(packet)-1] == '\n' {
					t.Fatalf("datagram %d has %d bytes, the last %q: want at most %d and no line end", i, len(packet), packet[len(packet)-1], maxDatagram)
				}
			}
			if n := len(load.packets) * s.PerDatagram; n < s.Series() {
				t.Errorf("%d lines are prepared for %d series: want at least as many", n, s.Series())
			}
			if again := s.load(); !slices.EqualFunc(load.packets, again.packets, bytes.Equal) {
				t.Error("the same seed made other bytes")
			}
			s.Seed++
			if other := s.load(); s.series.size() > 1 && slices.EqualFunc(load.packets, other.packets, bytes.Equal) {
				t.Error("another seed made the same bytes")
			}
		})
	}
}

func TestWarmUpHasEverySeriesOnce(t *testing.T) {
	for _, s := range lineScenarios {
		t.Run(s.Name, func(t *testing.T) {
			seen, lines := map[string]bool{}, 0
			warm := s.warmUp()
			for i, packet := range warm.packets {
				all := strings.Split(string(packet), "\n")
				if lines += warm.lines[i]; len(all) != warm.lines[i] || len(packet) > maxDatagram {
					t.Fatalf("datagram %d has %d lines in %d bytes and says %d", i, len(all), len(packet), warm.lines[i])
				}
				for _, line := range all {
					name, typed, _ := strings.Cut(line, ":")
					_, tags, _ := strings.Cut(typed, "#")
					seen[name+tags] = true
				}
			}
			if len(seen) != s.Series() || lines != s.series.size() {
				t.Errorf("%d lines of %d series: want %d of %d", lines, len(seen), s.series.size(), s.Series())
			}
		})
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		set  seriesSet
		i    int
		want string
	}{
		{newTaggedCounters(20, 5, 20, 5), 7 + 20*(3+5*(12+20*1)), "http.requests.m7:1|c|#namespace:ns3,pod:web-12,code:201"},
		{newPlainCounters(100, 100), 307, "http.requests.m7.h3:1|c"},
		{newMixed(5, 1000), 7 + 20*(3+5*(12+1000*1)), "http.requests.m7:1|c|#namespace:ns3,pod:web-12,code:201"},
		{newMixed(5, 1000), 500_000 + 7 + 40*(3+5*12), "queue.depth.m7:528|g|#namespace:ns3,pod:web-12"},
		{newMixed(5, 1000), 700_000 + 7 + 8*(3+5*12), "http.latency.m7:71|ms|#namespace:ns3,pod:web-12"},
		{newMixed(5, 1000), 740_000 + 1 + 2*(3+5*(12+1000*2)), "http.users.m1:2|s|#namespace:ns3,pod:web-12"},
		{newPlainTimers(100, 100), 307, "http.latency.m7.h3:71|ms"},
	} {
		if got := string(c.set.appendLine(nil, c.i, lineScenarios[0].random(7))); got != c.want {
			t.Errorf("line of series %d is %q, want %q", c.i, got, c.want)
		}
	}
}

// A delayed sender goes on at its pace: it makes up for mostLate at most.
func TestPaceAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(1000)
		time.Sleep(time.Second) // a thousand lines are due, and none was sent
		begun := time.Now()
		for lines := int64(0); lines <= 100; lines += 10 {
			must(t, p.after(t.Context(), lines))
		}
		if took := time.Since(begun); took != 100*time.Millisecond-mostLate {
			t.Errorf("100 lines took %v at 1,000 a second, want %v", took, 100*time.Millisecond-mostLate)
		}
	})
}

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
