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
	// searchRest lets the server enter the last lines and ask the kernel what it dropped.
	searchRest = 100 * time.Millisecond
	// searchPatience is how long the books of a step may take to balance.
	searchPatience = 5 * time.Second
	// flatOutPart of a scenario's lines shows how fast they can be sent.
	flatOutPart = 25
	// senderShare of that speed is what the sender can be held to.
	senderShare = 0.95
)

// searchStep is for how long each rate is offered.
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
	r.check = func(ctx context.Context) error { return m.audit(ctx, s, r.books(), nil) }
	if found, err = r.search(ctx); err != nil {
		return lossless{}, err
	}
	var parts []part
	for _, p := range m.parts() {
		if p.windowed && time.Since(begun) > windowEnds {
			m.note("The search took longer than the window of the %s: what they add up to was not checked, all else was.", p.name)
			continue
		}
		parts = append(parts, p)
	}
	return found, m.audit(ctx, s, r.books(), parts)
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
	b := floorBooks{warmUp: r.sent.warmUp, load: r.sent.load, received: counted.Lines, kernelDrops: r.drops}
	if err := b.check(); err != nil {
		return lossless{}, fmt.Errorf("%w:\n%w", ErrBooks, err)
	}
	m.machine.SocketBufferBytes = f.bufferBytes
	return found, nil
}

// ramp is one process that gets load after load.
type ramp struct {
	m     *measurement
	to    subject
	check func(context.Context) error // of the books so far; nil: only at the end, or never

	sender sender
	sent   poured
	drops  int64
}

// books are the sender's and the kernel's side so far.
func (r *ramp) books() *books {
	return &books{warmUp: r.sent.warmUp, load: r.sent.load, kernelDrops: r.drops}
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
		return lossless{}, fmt.Errorf("%s: the sender held no rate that was tried, so nothing is known of what would be lost: want a machine that does less else", r.to.what)
	case found.rate == 0:
		return lossless{}, fmt.Errorf("%s: lost something at every rate that was tried: want a machine that does less else", r.to.what)
	case found.bySender:
		r.m.note("The %s lost nothing of all that the sender could send: its highest lossless rate is not known, but at least this.", r.to.what)
	case found.unheld:
		r.m.note("The sender did not hold the rates above that of the %s: its highest lossless rate is not known, but at least this.", r.to.what)
	}
	return found, nil
}

// offer sends so many lines, at most perSecond of them a second, and takes the times until all were read.
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

// balance checks the books so far. A server that has little of a busy machine enters its last lines, and what
// the kernel dropped, a little later.
func (r *ramp) balance(ctx context.Context) error {
	if r.check == nil {
		return nil
	}
	for deadline := time.Now().Add(searchPatience); ; {
		err := r.check(ctx)
		if !errors.Is(err, ErrBooks) || time.Now().After(deadline) {
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
