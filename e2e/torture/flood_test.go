package torture

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

const (
	floodCap     = 100_000 // series
	knownSeries  = 500
	knownASecond = 2000
)

// TestFloodOfSeries makes one sender send millions of new series, twenty times the limit and more.
// All above the limit are rejected and counted, memory stays bounded, and the series of other
// senders are counted exactly.
func TestFloodOfSeries(t *testing.T) {
	s := server.New(t, "--max-series", fmt.Sprint(floodCap), "--max-bytes", "128MiB")
	s.Start()
	known := newKnownSenders(t, s)
	known.sendAll() // before the flood takes all places
	server.Within(t, known.problem)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { known.sendUntil(ctx) })

	first := server.ShortOrLong(500_000, 5_000_000)
	hostile := sendNewSeries(t, s, 0, first)
	atCap := peakMemory(t, s)
	total := server.ShortOrLong(2_000_000, 50_000_000)
	hostile += sendNewSeries(t, s, first, total)
	peak := peakMemory(t, s)
	cancel()
	others.Wait()

	server.Within(t, known.problem)
	m := s.Metrics()
	received, applied := m.Of("sluice_samples_received_total", "statsd_tcp", ""), m.Of("sluice_samples_applied_total", "statsd_tcp", "")
	refused := m.Of("sluice_samples_rejected_total", "statsd_tcp", "limit")
	if received != float64(hostile) || applied+refused != received || applied > floodCap {
		t.Errorf("of %d hostile lines %v were received, %v applied and %v refused for the cap of %d series", hostile, received, applied, refused, floodCap)
	}
	if live := m["sluice_series"]; live > floodCap {
		t.Errorf("%v series are live, and %d may be", live, floodCap)
	}
	if bound := atCap + atCap/4 + 32*mebibyte; peak > bound {
		t.Errorf("the server took %d MiB after %d series, and %d MiB when the cap was reached", peak/mebibyte, total, atCap/mebibyte)
	}
	figure(t, "%d new series of one sender, a cap of %d: %.0f refused, %d lines of %d known series all counted, at most %d MiB (%d MiB after the first %d)",
		hostile, floodCap, refused, known.sent, knownSeries, peak/mebibyte, atCap/mebibyte, first)
}

// sendNewSeries sends a range of series, each once, and waits until the server has decided on all.
// TCP slows the sender down, so nothing is dropped.
func sendNewSeries(t *testing.T, s *server.Server, from, to int) (sent int) {
	t.Helper()
	conn, err := net.Dial("tcp", s.TCP)
	must(t, err, "connect")
	defer conn.Close()
	lines := bufio.NewWriterSize(conn, 1<<20)
	for i := from; i < to; i++ {
		line := append(strconv.AppendInt([]byte("hostile."), int64(i), 36), ":1|c\n"...)
		_, err := lines.Write(line)
		must(t, err, "send")
	}
	must(t, lines.Flush(), "send")
	server.Within(t, func() string {
		m := s.Metrics()
		if got := m.Of("sluice_samples_received_total", "statsd_tcp", ""); got != float64(to) {
			return fmt.Sprintf("%v lines were received, %d sent", got, to)
		}
		return ""
	})
	return to - from
}

// peakMemory is the most memory that the server and its storage process had so far.
func peakMemory(t *testing.T, s *server.Server) (bytes int64) {
	t.Helper()
	for _, pid := range append(s.Children(), s.PID()) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		must(t, err, "read the memory of process %d", pid)
		_, after, _ := strings.Cut(string(status), "VmHWM:")
		kibibytes, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
		must(t, err, "read the memory of process %d", pid)
		bytes += kibibytes << 10
	}
	return bytes
}

// knownSenders send increments of the same series again and again, one in each datagram.
type knownSenders struct {
	t    *testing.T
	s    *server.Server
	conn net.Conn
	sent int // read when nothing sends
}

func newKnownSenders(t *testing.T, s *server.Server) *knownSenders {
	t.Helper()
	conn, err := net.Dial("udp", s.UDP)
	must(t, err, "open a socket")
	t.Cleanup(func() { _ = conn.Close() })
	return &knownSenders{t: t, s: s, conn: conn}
}

func (k *knownSenders) sendAll() {
	for range knownSeries {
		k.send()
	}
}

func (k *knownSenders) send() {
	if _, err := fmt.Fprintf(k.conn, "known:1|c|#n:%d", k.sent%knownSeries); err == nil {
		k.sent++
	}
}

func (k *knownSenders) sendUntil(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for range knownASecond / 100 {
				k.send()
			}
		}
	}
}

// problem says which of the lines sent, one in each datagram, are missing.
func (k *knownSenders) problem() string {
	dropped := k.s.Metrics().Of("sluice_kernel_drops_total", udpReceiver, "")
	items, err := k.s.External("known:total")
	sum := 0.0
	for _, item := range items {
		sum += item.Value
	}
	if sum+dropped != float64(k.sent) || len(items) != knownSeries {
		return fmt.Sprintf("%d lines of %d known series were sent, %v dropped, and %d series add up to %v (%v)", k.sent, knownSeries, dropped, len(items), sum, err)
	}
	return ""
}
