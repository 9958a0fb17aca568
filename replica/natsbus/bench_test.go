package natsbus

import (
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
)

// BenchmarkMessage sends messages of 4 KiB to another replica over TLS, as many as a busy replica's
// flushes make: 733 in half a second. cpu-µs/msg is the CPU time of both replicas.
func BenchmarkMessage(b *testing.B) {
	const perFlush = 733
	all := peers(b, 2, testauthority.New(b))
	var buses [2]*Bus
	for i, cfg := range all {
		bus, err := Open(b.Context(), cfg, slog.New(slog.DiscardHandler))
		must(b, err)
		defer bus.shutdown()
		buses[i] = bus
	}
	var received atomic.Int64
	if _, err := buses[1].Subscribe("bench.>", func(string, []byte) { received.Add(1) }); err != nil {
		b.Fatal(err)
	}
	message := make([]byte, 4<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(message) // no compression helps
	for received.Load() == 0 {
		_ = buses[0].Publish("bench.a", message)
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	received.Store(0)
	began, sent := cpuTime(b), 0
	for b.Loop() {
		for i := range perFlush {
			if i%64 == 0 { // a flush is spread as well
				time.Sleep(time.Millisecond)
			}
			must(b, buses[0].Publish("bench.a", message))
			sent++
		}
		for received.Load() < int64(sent) {
			time.Sleep(time.Millisecond)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(sent), "cpu-µs/msg")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
