package aggregate

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// copied is a table of counters, with three tags of a pod each, and its saved state. Of each pod it
// has three metrics, or three label sets of one metric.
type copied struct {
	*fixture
	clock        []byte
	names, state [][]byte
	series       int
}

func newCopied(t testing.TB, line string, pods, ticks int) *copied {
	f := newFixture(t)
	c := &copied{fixture: f}
	for tick := range ticks {
		for pod := range pods {
			for _, path := range []string{"read", "write", "list"} {
				f.push(fmt.Sprintf(line, path, tick+1, pod))
			}
		}
		for i := range f.Blocks() {
			f.AppendDelta(nil, i)
		}
		if tick < ticks-1 {
			time.Sleep(time.Second)
		}
	}
	c.clock, c.series = f.AppendClock(nil), f.Series()
	for i := range f.Blocks() {
		c.names, c.state = append(c.names, f.AppendBlockNames(nil, i)), append(c.state, f.AppendState(nil, i))
	}
	return c
}

const (
	metricsOfPod = "http_requests_%s:%d|c|#pod:web-7d9c6b5f4-%05d,ns:shop,path:/api/v1,code:200,zone:eu-1"
	setsOfPod    = "http_requests:%[2]d|c|#pod:web-7d9c6b5f4-%05[3]d,ns:shop,path:/api/v1/%[1]s,code:200,zone:eu-1"
)

func (c *copied) into(s *Shadow) {
	for i := range c.names {
		if err := s.ReplaceBlock(i, c.names[i], c.state[i]); err != nil {
			c.t.Fatal(err)
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkShadowReplaceBlock measures CPU time, garbage collection included, per series of a whole
// block: copied into an empty shadow, and over the same series.
func BenchmarkShadowReplaceBlock(b *testing.B) {
	c := newCopied(b, metricsOfPod, 20_000, 1)
	for _, empty := range []bool{true, false} {
		b.Run(map[bool]string{true: "empty", false: "again"}[empty], func(b *testing.B) {
			var spent time.Duration
			s := NewShadow(DefaultConfig(), quiet())
			for range b.N {
				if empty || s.Series() == 0 {
					if err := s.Begin(c.clock); err != nil {
						b.Fatal(err)
					}
					if !empty {
						c.into(s)
					}
				}
				runtime.GC()
				begun := cpuTime()
				c.into(s)
				spent += cpuTime() - begun
			}
			b.ReportMetric(float64(spent)/float64(b.N*c.series), "cpu-ns/series")
		})
	}
}

// BenchmarkShadowApplyDelta measures CPU time per changed series, of counters and of timers.
func BenchmarkShadowApplyDelta(b *testing.B) {
	for _, kind := range []string{"c", "g", "ms"} {
		b.Run(kind, func(b *testing.B) {
			f := newFixture(b)
			s := NewShadow(DefaultConfig(), quiet())
			follow := func() (deltas [][]byte) {
				for pod := range 8192 {
					f.push(fmt.Sprintf("m:%d|%s|#pod:web-%05d,ns:shop", pod%100+1, kind, pod))
				}
				for i := range f.Blocks() {
					deltas = append(deltas, f.AppendDelta(nil, i))
				}
				return deltas
			}
			if err := s.Begin(f.AppendClock(nil)); err != nil {
				b.Fatal(err)
			}
			apply := func(deltas [][]byte) {
				for i := range deltas {
					if err := s.ApplyDelta(i, deltas[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
			apply(follow())
			var spent time.Duration
			for range b.N {
				deltas := follow()
				begun := cpuTime()
				apply(deltas)
				spent += cpuTime() - begun
			}
			b.ReportMetric(float64(spent)/float64(b.N*8192), "cpu-ns/series")
		})
	}
}

// residentBytes is the resident memory of the process.
func residentBytes(t testing.TB) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	var kib int64
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	fmt.Sscan(after, &kib)
	return kib << 10
}

// BenchmarkShadowMemory measures the memory per counter with three tags of a pod.
func BenchmarkShadowMemory(b *testing.B) {
	b.Run("metrics", func(b *testing.B) { benchmarkMemory(b, metricsOfPod) })
	b.Run("label sets", func(b *testing.B) { benchmarkMemory(b, setsOfPod) })
}

func benchmarkMemory(b *testing.B, line string) {
	c := newCopied(b, line, 60_000, 2)
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		resident := residentBytes(b)
		s := NewShadow(DefaultConfig(), quiet())
		if err := s.Begin(c.clock); err != nil {
			b.Fatal(err)
		}
		c.into(s)
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		_, logs := s.Table().Logs.Used()
		heap := float64(after.HeapAlloc-before.HeapAlloc) / float64(c.series)
		pages := float64(s.Table().Blocks()*1024*(pageBytes/1024)) / float64(c.series)
		b.ReportMetric(heap, "heap-B/series")
		b.ReportMetric(pages, "cells-B/series")
		b.ReportMetric(float64(logs)/float64(c.series), "logs-B/series")
		b.ReportMetric(heap+pages+float64(logs)/float64(c.series), "B/series")
		b.ReportMetric(float64(residentBytes(b)-resident)/float64(c.series), "rss-B/series")
		b.ReportMetric(float64(s.Bytes())/float64(c.series), "estimated-B/series")
		runtime.KeepAlive(s)
	}
}

// A starting replica makes a shadow for each origin that it hears of.
func BenchmarkEmptyShadow(b *testing.B) {
	clock := newFixture(b).AppendClock(nil)
	b.ReportAllocs()
	for b.Loop() {
		s := NewShadow(DefaultConfig(), slog.New(slog.DiscardHandler))
		if err := s.Begin(clock); err != nil {
			b.Fatal(err)
		}
		s.End()
	}
}
