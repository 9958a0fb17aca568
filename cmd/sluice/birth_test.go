package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// Measures a new series, from its bytes to its place in the table, as wired, without sockets and
// store: CPU time, the least of all rounds.
func BenchmarkBirth(b *testing.B) {
	const series = 750_000
	var packets [][]byte
	var packet []byte
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(series) {
		packet = fmt.Appendf(packet, "http.requests.m%d:1|c|#namespace:ns%d,pod:web-%d,code:%d", i%20, i/20%5, i/100%1500, 200+i/150000)
		if bytes.Count(packet, []byte{'\n'}) == guardPacket-1 {
			packets = append(packets, packet)
			packet = nil
			continue
		}
		packet = append(packet, '\n')
	}
	tuneCollector()
	least, said := time.Hour, time.Hour
	for b.Loop() {
		path, table := newPath(b)
		begun := cpuTime()
		path.apply(nil, packets)
		least = min(least, cpuTime()-begun)
		begun = cpuTime()
		var dst []byte
		for block := range table.Blocks() {
			dst = table.AppendDelta(dst[:0], block)
		}
		said = min(said, cpuTime()-begun)
		if table.Series() != series {
			b.Fatal(table.Series())
		}
		path.writer.Close()
	}
	b.ReportMetric(float64(least.Nanoseconds())/series, "ns/series")
	b.ReportMetric(float64(said.Nanoseconds())/series, "ns/told")
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
