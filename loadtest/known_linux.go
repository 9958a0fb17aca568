package loadtest

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"time"
)

// knownWaits are how long lines of a series that is known took until a reader saw them: from the call that
// sends the line to the answer that has its value. Reading is in it, so the line itself waited less.
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
	knownSeries   = "loadtest.known"
	knownPause    = 10 * time.Millisecond  // between two lines: asking must not be a load
	knownPoll     = 300 * time.Microsecond // between two questions
	knownPatience = 30 * time.Second
)

// watchKnown sends a line of one gauge after the other, and asks for each until it is there, while f runs.
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

// sendKnown sets the gauge to a value that it never had, and waits until it reads so.
func (s *server) sendKnown(ctx context.Context, conn *net.UDPConn) (time.Duration, error) {
	s.knownValue++
	start := time.Now()
	if _, err := fmt.Fprintf(conn, knownSeries+":%d|g", s.knownValue); err != nil {
		return 0, err
	}
	for time.Since(start) < knownPatience {
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
	return 0, fmt.Errorf("%w: a line of a known series was not there after %s", ErrBooks, knownPatience)
}
