package connlimit

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkEnter dials at a limit, so that each connection takes the slot of another one.
func BenchmarkEnter(b *testing.B) {
	for _, bench := range []struct {
		addresses, each int
		keep            time.Duration
		full            bool // the address that dials has all that it may
	}{{4, 1024, 30 * time.Second, true}, {16, 256, 30 * time.Second, false}, {320, 64, 0, true}, {320, 64, 0, false}, {20_000, 1, 0, false}} {
		b.Run(fmt.Sprintf("%dx%d/full=%t", bench.addresses, bench.each, bench.full), func(b *testing.B) {
			limits := Limits{Max: bench.addresses * bench.each, MaxEach: bench.each, Keep: bench.keep}
			if bench.full {
				limits.Max++
			}
			l := limiter(limits)
			for i := range bench.addresses * bench.each {
				if _, _, err := l.enter(peer{ip: fmt.Sprintf("10.1.%d.%d", i%bench.addresses/256, i%bench.addresses%256)}); err != nil {
					b.Fatal(err)
				}
			}
			from := peer{ip: "10.2.0.1"}
			if bench.full {
				from = peer{ip: "10.1.0.0"}
			}
			for b.Loop() {
				if _, yielded, err := l.enter(from); err != nil || yielded == nil {
					b.Fatal(yielded, err)
				}
			}
		})
	}
}
