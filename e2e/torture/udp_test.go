package torture

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// A datagram of these tests is as large as loopback allows. Sending one costs a fraction of
// reading its lines, so one sender outruns the server many times.
const (
	goodLines      = 5000
	malformedLines = 50
)

// TestUDPOverload sends more lines than the server can read, at twice and at ten times the rate
// that it reads. The kernel drops the rest, and every line is accounted for: sent = received +
// dropped, received = applied + rejected.
func TestUDPOverload(t *testing.T) {
	s := server.New(t, "--statsd-udp-sockets", "1")
	s.Start()
	flood := newUDPFlood(t, s)
	begun := flood.taken()
	took := flood.send(time.Second, 0)
	capacity := (flood.taken() - begun) / took.Seconds()
	flood.settle()
	for _, times := range []float64{2, 10} {
		before, sent := flood.taken(), flood.sent
		took := flood.send(server.ShortOrLong(3*time.Second, time.Minute), times*capacity)
		taken, offered := (flood.taken()-before)/took.Seconds(), float64(flood.sent-sent)/took.Seconds()
		flood.settle()
		figure(t, "UDP at %.0f× of %.0f lines/s: %.1f× were sent, %.0f%% of the datagrams dropped; sent = received + dropped and received = applied + rejected, exactly",
			times, capacity*goodLines, offered/max(taken, 1), 100*(1-taken/offered))
	}
	if flood.drops() == 0 {
		t.Error("the kernel dropped nothing: this was no overload")
	}
}

// udpFlood sends one datagram again and again.
type udpFlood struct {
	t        *testing.T
	s        *server.Server
	conn     net.Conn
	datagram []byte
	sent     int // datagrams
}

func newUDPFlood(t *testing.T, s *server.Server) *udpFlood {
	t.Helper()
	conn, err := net.Dial("udp", s.UDP)
	must(t, err, "open a socket")
	t.Cleanup(func() { _ = conn.Close() })
	datagram := strings.Repeat("jobs:1|c\n", goodLines) + strings.Repeat("jobs:x|c\n", malformedLines)
	return &udpFlood{t: t, s: s, conn: conn, datagram: []byte(datagram)}
}

// send sends for a time, at full speed or at a rate of datagrams a second.
func (f *udpFlood) send(during time.Duration, perSecond float64) (took time.Duration) {
	f.t.Helper()
	began, first := time.Now(), f.sent
	for time.Since(began) < during {
		if perSecond > 0 && float64(f.sent-first) > time.Since(began).Seconds()*perSecond {
			time.Sleep(time.Millisecond)
			continue
		}
		_, err := f.conn.Write(f.datagram)
		must(f.t, err, "send a datagram")
		f.sent++
	}
	return time.Since(began)
}

const udpReceiver = "statsd_udp"

// taken is the number of datagrams that the server has read.
func (f *udpFlood) taken() float64 {
	f.t.Helper()
	return f.s.Metrics().Of("sluice_packets_received_total", udpReceiver, "")
}

func (f *udpFlood) drops() float64 {
	f.t.Helper()
	return f.s.Metrics().Of("sluice_kernel_drops_total", udpReceiver, "")
}

// settle waits until all datagrams are read, and compares the server's counts with those sent.
func (f *udpFlood) settle() {
	f.t.Helper()
	server.Within(f.t, func() string {
		m := f.s.Metrics()
		of := func(metric, reason string) float64 { return m.Of(metric, udpReceiver, reason) }
		taken, dropped := of("sluice_packets_received_total", ""), of("sluice_kernel_drops_total", "")
		received, applied := of("sluice_samples_received_total", ""), of("sluice_samples_applied_total", "")
		rejected, malformed := of("sluice_samples_rejected_total", ""), of("sluice_samples_rejected_total", "malformed")
		total := f.s.Sum("jobs:total")
		switch {
		case taken+dropped != float64(f.sent):
			return fmt.Sprintf("%d datagrams were sent, %v received and %v dropped", f.sent, taken, dropped)
		case received != taken*(goodLines+malformedLines) || applied != taken*goodLines || malformed != taken*malformedLines || rejected != malformed:
			return fmt.Sprintf("of %v datagrams %v samples were received, %v applied and %v rejected", taken, received, applied, rejected)
		case total != applied:
			return fmt.Sprintf("jobs:total is %v, but %v were applied", total, applied)
		}
		return ""
	})
}
