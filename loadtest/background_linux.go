package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

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
