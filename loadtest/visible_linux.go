package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"
)

// visibleScenario measures the time from a push until a reader of the metrics API sees the value.
var visibleScenario = Scenario{
	Name: "visible", About: "time from a push, over UDP and HTTP, to the first answer of the metrics API with the value, under load",
	TakesRate: true, measure: measureVisible,
}

// visibleLinesPerSecond is the default load: below half of the lossless rate of a core of 2025.
const visibleLinesPerSecond = 1_000_000

func measureVisible(ctx context.Context, m *measurement) (figures []Figure, err error) {
	perSecond, pushes := visibleLinesPerSecond, 1_000
	if m.Short {
		perSecond, pushes = 20_000, 30
	}
	if m.rate > 0 {
		perSecond = m.rate
	}
	m.note("Times end with the first complete answer over a keep-alive TLS connection that has the value. Reads follow each other, so a time is "+
		"too long by at most one read. The load is %d lines/s of tagged counters; --rate should be half of the lossless rate.", perSecond)
	s, err := m.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	load := Scenario{PerDatagram: 24, Seed: 23, series: newTaggedCounters(20, 5, 20, 5)}
	lines, err := m.startBackground(ctx, s, load, perSecond)
	if err != nil {
		return nil, err
	}
	m.step("pushes")
	udp, http, probeErr := probe(ctx, s, pushes)
	sent, err := lines.stop()
	if err := errors.Join(probeErr, err); err != nil {
		return nil, err
	}
	drops, err := lines.audit(ctx, int64(len(udp.visible)))
	if err != nil {
		return nil, err
	}
	figures = append(udp.visible.figures("udp", Aim{Most: 10}), http.visible.figures("http", Aim{Most: 10})...)
	reads := append(udp.reads, http.reads...)
	return append(append(figures, reads.figures("one_read", Aim{})...),
		Figure{Name: "lines_per_second", Unit: "lines/s", Value: sent}, Figure{Name: "dropped_datagrams",
			Value: float64(drops)}), nil
}

// probed are the times of one protocol.
type probed struct {
	visible durations
	reads   durations // of every read until the value was visible
}

// probe pushes over UDP and over HTTP in turn.
func probe(ctx context.Context, s *server, pushes int) (udp, http probed, err error) {
	api, err := openAPI(ctx, s)
	if err != nil {
		return udp, http, err
	}
	defer closing(api, &err)
	push, err := openSession(s.http)
	if err != nil {
		return udp, http, err
	}
	defer closing(push, &err)
	datagrams, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.udp))
	if err != nil {
		return udp, http, err
	}
	defer func() { err = errors.Join(err, datagrams.Close()) }()
	for i := 0; i < pushes && err == nil; i++ {
		value := 10*i + 1 // never ends in 0: Kubernetes would write 1000 as 1k
		err = udp.once(ctx, api, "probe.udp", value, func(value int) error {
			_, err := fmt.Fprintf(datagrams, "probe.udp:%d|g", value)
			return err
		})
		if err == nil {
			err = http.once(ctx, api, "probe.http", value, func(value int) error {
				_, err := push.ask200(bodyRequest("PUT", "/v1/external/probe.http", fmt.Sprint(value)))
				return err
			})
		}
		if err == nil {
			err = rest(ctx, betweenProbes)
		}
	}
	return udp, http, err
}

const (
	// betweenProbes spreads the probes over all phases of the server's periodic work.
	betweenProbes = 3 * time.Millisecond
	// visibleTimeout bounds the wait for a value: one in a dropped datagram never becomes visible.
	visibleTimeout = 10 * time.Second
)

// once pushes a value and reads until the value is visible.
func (p *probed) once(ctx context.Context, api *session, metric string, value int, push func(value int) error) error {
	request := getRequest("/apis/external.metrics.k8s.io/v1beta1/namespaces/default/"+metric, jsonMedia)
	want := fmt.Appendf(nil, `"value":"%d"`, value)
	begun := time.Now()
	if err := push(value); err != nil {
		return fmt.Errorf("push %s: %w", metric, err)
	}
	for {
		asked := time.Now()
		status, body, err := api.ask(request)
		if err != nil {
			return err
		}
		now := time.Now()
		p.reads = append(p.reads, now.Sub(asked))
		if status == 200 && bytes.Contains(body, want) {
			p.visible = append(p.visible, now.Sub(begun))
			return nil
		}
		if now.Sub(begun) > visibleTimeout {
			return fmt.Errorf("%s: %d is not visible after %s; the last answer was %d %.200s", metric, value,
				visibleTimeout, status, body)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

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

// background sends lines at a constant rate while something else is measured.
type background struct {
	m        *measurement
	s        *server
	scenario Scenario
	sender   *flood
	begun    time.Time
	cancel   context.CancelFunc
	ended    chan struct{}

	warm, load packing // load: to be read once ended is closed
	err        error
}

// startBackground sends every series once, then lines of random series at the rate.
func (m *measurement) startBackground(ctx context.Context, s *server, load Scenario,
	perSecond int) (*background, error) {
	sender, err := newFlood(newFloodLoad(load), 1, s.udp)
	if err != nil {
		return nil, err
	}
	return m.startFlood(ctx, s, load, sender, perSecond)
}

// startRounds is startBackground with the series in turn. The number of series must be a multiple
// of the lines per datagram.
func (m *measurement) startRounds(ctx context.Context, s *server, load Scenario, perSecond int) (*background, error) {
	prepared := prepare(load.warmUp())
	sender, err := newFlood(&floodLoad{first: prepared, rest: prepared, per: load.PerDatagram}, 1, s.udp)
	if err != nil {
		return nil, err
	}
	return m.startFlood(ctx, s, load, sender, perSecond)
}

func (m *measurement) startFlood(ctx context.Context, s *server, load Scenario, sender *flood,
	perSecond int) (_ *background, err error) {
	b := &background{m: m, s: s, scenario: load, sender: sender, ended: make(chan struct{})}
	if err := b.warmUp(ctx); err != nil {
		return nil, errors.Join(err, sender.close())
	}
	ctx, b.cancel = context.WithCancel(ctx)
	b.begun = time.Now()
	go func() {
		defer close(b.ended)
		b.load, b.err = sender.load(ctx, math.MaxInt64, perSecond)
	}()
	return b, nil
}

// warmUp sends every series once and waits until the server has read them.
func (b *background) warmUp(ctx context.Context) (err error) {
	how := warmUp{lines: b.scenario.series.size(), perSecond: warmUpRate, look: warmUpLook,
		wait: keepingUp(b.s.udp, warmUpQueue)}
	if b.scenario.PerDatagram == 1 {
		how.perSecond = singleWarmUpRate
	}
	b.m.step("warm-up")
	if b.warm, err = b.sender.warmUp(ctx, how); err != nil {
		return err
	}
	q, err := b.settle(ctx)
	if err == nil && q.drops > 0 {
		err = subject{}.warmUpLoss(q.drops)
	}
	return err
}

func (b *background) settle(ctx context.Context) (queue, error) {
	return b.m.settle(ctx, subject{child: b.s.child, udp: b.s.udp})
}

// stop ends the load and returns the rate in lines per second.
func (b *background) stop() (perSecond float64, err error) {
	b.cancel()
	<-b.ended
	took := time.Since(b.begun)
	if errors.Is(b.err, context.Canceled) {
		b.err = nil
	}
	return float64(b.load.lines()) / took.Seconds(), errors.Join(b.err, b.sender.close())
}

// sent returns the number of lines sent, the warm-up included.
func (b *background) sent() int64 { return b.warm.lines() + b.load.lines() }

// audit checks the accounting of all lines: those of the background plus besides lines of other
// series. It returns the number of datagrams that the kernel dropped.
func (b *background) audit(ctx context.Context, besides int64) (drops int64, err error) {
	b.m.step("accounting")
	q, err := b.settle(ctx)
	if err != nil {
		return 0, err
	}
	entered, err := readLedger(ctx, b.s.client, b.s.ops)
	if err != nil {
		return 0, err
	}
	all := accounting{
		warmUp: packing{1: b.warm.lines() + besides}, load: b.load, kernelDrops: q.drops,
		received: entered.received, applied: entered.applied, rejected: entered.rejected, serverDrops: entered.drops,
	}
	for _, p := range b.scenario.series.parts() {
		got, err := total(ctx, b.s.client, b.s.http, p.paths)
		if err != nil {
			return 0, err
		}
		all.sums = append(all.sums, sum{of: p.name, got: got, want: entered.applied - besides})
	}
	if err := all.check(); err != nil {
		return 0, fmt.Errorf("%w:\n%w", ErrUnaccounted, err)
	}
	return q.drops, nil
}
