package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	searchStep      = 2 * time.Second
	shortSearchStep = 500 * time.Millisecond
	// searchRest lets the server count the last lines and the kernel's drops.
	searchRest = 100 * time.Millisecond
	// searchTimeout bounds the wait until the accounting of a step adds up.
	searchTimeout = 5 * time.Second
	// flatOutPart divides the lines that measure the sender's maximum.
	flatOutPart = 25
	// senderShare is the highest rate that is tried, as a share of the sender's maximum.
	senderShare = 0.95
)

// searchStep is the time for which each rate is offered.
func (m *measurement) searchStep() time.Duration {
	if m.Short {
		return shortSearchStep
	}
	return searchStep
}

// search finds the highest lossless rates of a new server and of the gathering floor.
func (m *measurement) search(ctx context.Context) ([]Figure, error) {
	server, err := m.searchServer(ctx)
	if err != nil {
		return nil, err
	}
	floor, err := m.searchFloor(ctx)
	return []Figure{
		{Name: "lossless_rate", Unit: "lines/s", Value: server.rate},
		{Name: "floor_lossless_rate", Unit: "lines/s", Value: floor.rate},
	}, err
}

func (m *measurement) searchServer(ctx context.Context) (found lossless, err error) {
	s, err := m.startServer(ctx, m.scenario.serverArgs...)
	if err != nil {
		return lossless{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	begun := time.Now()
	r := &ramp{m: m, to: m.subject(s)}
	r.check = func(ctx context.Context) error { return m.audit(ctx, s, r.accounting(), nil) }
	if found, err = r.search(ctx); err != nil {
		return lossless{}, err
	}
	var parts []part
	for _, p := range m.parts() {
		if p.windowed && time.Since(begun) > windowEnds {
			m.note("The search took longer than the window of the %s: their sum was not checked.", p.name)
			continue
		}
		parts = append(parts, p)
	}
	return found, m.audit(ctx, s, r.accounting(), parts)
}

func (m *measurement) searchFloor(ctx context.Context) (found lossless, err error) {
	f, err := startFloor(gathering, m.processors.server)
	if err != nil {
		return lossless{}, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	r := &ramp{m: m, to: m.floorSubject(f, gathering)}
	if found, err = r.search(ctx); err != nil {
		return lossless{}, err
	}
	counted, err := f.finish()
	if err != nil {
		return lossless{}, err
	}
	b := floorAccounting{warmUp: r.sent.warmUp, load: r.sent.load, received: counted.Lines, kernelDrops: r.drops}
	if err := b.check(); err != nil {
		return lossless{}, fmt.Errorf("%w:\n%w", ErrUnaccounted, err)
	}
	m.machine.SocketBufferBytes = f.bufferBytes
	return found, nil
}

// ramp is one process that receives load after load.
type ramp struct {
	m     *measurement
	to    subject
	check func(context.Context) error // checks the accounting so far; nil: no check

	sender sender
	sent   sentLines
	drops  int64
}

// accounting returns the sender's and the kernel's counts so far.
func (r *ramp) accounting() *accounting {
	return &accounting{warmUp: r.sent.warmUp, load: r.sent.load, kernelDrops: r.drops}
}

func (r *ramp) search(ctx context.Context) (found lossless, err error) {
	if r.sender, err = r.m.newSender(r.to.udp); err != nil {
		return lossless{}, err
	}
	defer func() { err = errors.Join(err, r.sender.close(), r.to.alive()) }()
	if r.sent.warmUp, err = r.m.warmUp(ctx, r.sender, r.to); err != nil {
		return lossless{}, err
	}
	r.sent.load = packing{}
	flatOut, err := r.offer(ctx, int64(r.m.scenario.Lines/flatOutPart), 0)
	if err != nil {
		return lossless{}, err
	}
	step := r.m.searchStep()
	found, err = highestLossless(flatOut.TakenPerSecond(), senderShare*flatOut.OfferedPerSecond(), func(rate float64) (outcome, error) {
		step, err := r.offer(ctx, int64(rate*step.Seconds()), int(rate))
		return step.outcomeAt(rate), err
	})
	r.m.result.Load.SearchSteps = max(r.m.result.Load.SearchSteps, found.steps)
	switch {
	case err != nil:
		return lossless{}, err
	case found.rate == 0 && found.unheld:
		return lossless{}, fmt.Errorf("%s: the sender held no rate, so the loss is unknown; the machine is too busy", r.to.what)
	case found.rate == 0:
		return lossless{}, fmt.Errorf("%s: lines were lost at every rate; the machine is too busy", r.to.what)
	case found.bySender:
		r.m.note("The %s lost nothing at the sender's maximum: its highest lossless rate is at least this.", r.to.what)
	case found.unheld:
		r.m.note("The sender did not hold the rates above that of the %s, whose highest lossless rate is at least this.", r.to.what)
	}
	return found, nil
}

// offer sends lines, at most perSecond, and measures the time until all were read.
func (r *ramp) offer(ctx context.Context, lines int64, perSecond int) (taken Taken, err error) {
	per := int64(r.m.scenario.PerDatagram)
	lines = max((lines+per-1)/per*per, per)
	if taken, err = r.send(ctx, lines, perSecond); err != nil {
		return taken, err
	}
	if err := rest(ctx, searchRest); err != nil {
		return taken, err
	}
	q, err := readQueue(r.to.udp)
	if err != nil {
		return taken, err
	}
	taken.DroppedDatagrams = q.drops - r.drops
	taken.Taken = max(taken.Sent-taken.DroppedDatagrams*per, 0)
	r.drops = q.drops
	return taken, r.balance(ctx)
}

// balance checks the accounting so far. On a busy machine the server's counts may lag.
func (r *ramp) balance(ctx context.Context) error {
	if r.check == nil {
		return nil
	}
	for deadline := time.Now().Add(searchTimeout); ; {
		err := r.check(ctx)
		if !errors.Is(err, ErrUnaccounted) || time.Now().After(deadline) {
			return err
		}
		if err := rest(ctx, searchRest); err != nil {
			return err
		}
	}
}

func (r *ramp) send(ctx context.Context, lines int64, perSecond int) (taken Taken, err error) {
	what := r.to.what + ", flat out"
	if perSecond > 0 {
		what = r.to.what + ", " + grouped(float64(perSecond)) + " lines/s"
	}
	r.m.step(what)
	start := time.Now()
	load, err := r.sender.load(ctx, lines, perSecond)
	taken.Sending = time.Since(start)
	for lines, datagrams := range load {
		r.sent.load.add(lines, datagrams)
	}
	taken.Sent = load.lines()
	if err != nil {
		return taken, err
	}
	_, err = awaitEmpty(ctx, r.to.udp)
	taken.Taking = time.Since(start)
	return taken, err
}
