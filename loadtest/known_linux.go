package loadtest

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"time"
)

// knownWaits are the times from sending a line of a known series to the answer with the line's
// value. The read is included, so the line waited less.
type knownWaits struct {
	milliseconds []float64
	sent         int64
}

func (k knownWaits) quantile(q float64) float64 {
	if len(k.milliseconds) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(k.milliseconds))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

const (
	knownSeries  = "loadtest.known"
	knownPause   = 10 * time.Millisecond  // between two lines: the reads must not be a load
	knownPoll    = 300 * time.Microsecond // between two reads
	knownTimeout = 30 * time.Second
)

// watchKnown sends lines of one gauge while f runs, each after a read returned the previous value.
func watchKnown(ctx context.Context, s *server, f func() error) (waits knownWaits, err error) {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.udp))
	if err != nil {
		return waits, err
	}
	defer conn.Close()
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	for {
		wait, knownErr := s.sendKnown(ctx, conn)
		waits.milliseconds = append(waits.milliseconds, float64(wait)/float64(time.Millisecond))
		waits.sent++
		if knownErr != nil {
			<-ended
			return waits, knownErr
		}
		select {
		case err := <-ended:
			return waits, err
		case <-time.After(knownPause):
		}
	}
}

// sendKnown sets the gauge to a new value, and waits until a read returns that value.
func (s *server) sendKnown(ctx context.Context, conn *net.UDPConn) (time.Duration, error) {
	s.knownValue++
	start := time.Now()
	if _, err := fmt.Fprintf(conn, knownSeries+":%d|g", s.knownValue); err != nil {
		return 0, err
	}
	for time.Since(start) < knownTimeout {
		got, err := total(ctx, s.client, s.http, []string{"/v1/external/" + knownSeries + ":last"})
		if err == nil && got == s.knownValue {
			return time.Since(start), nil
		}
		if err != nil && ctx.Err() != nil {
			return 0, err
		}
		if err := rest(ctx, knownPoll); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: a line of a known series was not there after %s", ErrUnaccounted, knownTimeout)
}
