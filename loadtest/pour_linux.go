package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// afterglow is how long is waited after the last line, before and after the load: longer than the server
// takes to write what changed.
const afterglow = 500 * time.Millisecond

// poured is what a sender sent.
type poured struct{ warmUp, load packing }

// pour warms a child up, gives it the load, and reads its CPU clock around that. How many lines it took is
// for the caller to find out.
func (m *measurement) pour(ctx context.Context, title string, to *child, udp netip.AddrPort) (sent poured, taken Taken, err error) {
	s, err := m.newSender(udp)
	if err != nil {
		return sent, Taken{}, err
	}
	defer func() { err = errors.Join(err, s.close(), to.alive()) }()
	if sent.warmUp, err = s.warmUp(ctx); err != nil {
		return sent, Taken{}, err
	}
	q, err := settle(ctx, udp)
	if err != nil {
		return sent, Taken{}, err
	}
	if q.drops > 0 {
		return sent, Taken{}, fmt.Errorf("%w: %d datagrams of the slow warm-up were dropped: the machine is too busy", ErrBooks, q.drops)
	}
	before, err := readCPU(to.pid())
	if err != nil {
		return sent, Taken{}, err
	}
	if sent.load, err = m.load(ctx, title, s, udp, &taken); err != nil {
		return sent, Taken{}, err
	}
	if q, err = settle(ctx, udp); err != nil {
		return sent, Taken{}, err
	}
	after, err := readCPU(to.pid())
	if err != nil {
		return sent, Taken{}, err
	}
	taken.User, taken.System = after.since(before)
	taken.Sent, taken.DroppedDatagrams = sent.load.lines(), q.drops
	return sent, taken, nil
}

// load sends the measured lines and takes the times.
func (m *measurement) load(ctx context.Context, title string, s sender, udp netip.AddrPort, taken *Taken) (packing, error) {
	var sent atomic.Int64
	defer m.showProgress(title, &sent, m.lines, "lines")()
	start := time.Now()
	load, err := s.load(ctx, m.lines, m.Rate, &sent)
	taken.Sending = time.Since(start)
	if err != nil {
		return load, err
	}
	_, err = awaitEmpty(ctx, udp)
	taken.Taking = time.Since(start)
	return load, err
}

// settle waits until all was read, and then for what that leaves to do.
func settle(ctx context.Context, udp netip.AddrPort) (queue, error) {
	if _, err := awaitEmpty(ctx, udp); err != nil {
		return queue{}, err
	}
	if err := rest(ctx, afterglow); err != nil {
		return queue{}, err
	}
	return readQueue(udp)
}
