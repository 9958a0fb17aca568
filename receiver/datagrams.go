package receiver

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// leastBackoff is the wait after the first failed read of a row.
	leastBackoff = time.Millisecond
	// dropsEvery is the number of rounds of steady work after which the kernel's drops are read.
	dropsEvery = 256
	maxBackoff = time.Second
	// parsedPerCheck is the number of parsed lines after which the clock is read within a batch. A
	// batch of 32 datagrams full of new series takes two milliseconds, a hundred times as long as
	// one of known series.
	parsedPerCheck = 100
	// minBusyTime is how long a goroutine with a full socket keeps the processor before it yields.
	minBusyTime = time.Millisecond
	// maxBusyTime bounds that time when other goroutines took longer. 10 ms is also Go's own time
	// slice.
	maxBusyTime = 10 * time.Millisecond
	// overloadTime is how long batches are full before the load is spread over all sockets of the
	// address: longer than what gathers takes to apply where the goroutine keeps up.
	overloadTime = 20 * time.Millisecond
	// freshenTime bounds the time that a read or a push spends on what waits in a socket. It covers
	// what gathers while the socket's goroutine keeps up.
	freshenTime = 2 * time.Millisecond
)

// datagrams reads one datagram socket, udp or unixgram, and applies every datagram before it reads
// the next batch. It owns the socket. packetSocket (on Linux, recvmmsg outside Go's poller) blocks
// in wait only.
//
// The goroutine is not locked to a thread: a goroutine that sleeps on its own thread costs two
// thread switches per wake-up.
//
// Other goroutines may call freshen, in between.
type datagrams struct {
	turn
	parked       bool // the applier is offline
	closed       bool
	in           *ingester
	socket       *packetSocket
	drainTimeout time.Duration
	logger       *slog.Logger

	from       [batchSize]netip.Addr // senders of the current batch
	draining   bool                  // the socket receives no more
	drainUntil time.Time             // set when draining begins
	backoff    time.Duration
	fullSince  time.Time     // start of a row of full batches; zero: the last batch was not full
	busySince  time.Time     // fullSince, or the last yield since
	othersTime time.Duration // how long other goroutines had the processor at the last yield
}

// run serves until ctx ends. Then it stops receiving, applies the data that has arrived, and closes
// the socket.
func (d *datagrams) run(ctx context.Context) {
	defer d.close()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { d.socket.wake(); close(woken) })
	defer func() {
		if !stop() {
			<-woken // or wake would write to a closed or reused descriptor
		}
	}()
	if err := d.turn.all.add(d.socket.descriptor(), d, true); err != nil {
		d.logger.Error("cannot watch the socket; reads and pushes do not wait for what it holds", "error", err)
	}
	for round := 1; d.step(ctx); round++ {
		if round%dropsEvery == 0 {
			d.countDrops()
		}
	}
	d.countDrops()
}

func (d *datagrams) close() {
	d.take()
	defer d.give()
	d.closed = true
	d.turn.all.remove(d.socket.descriptor(), d)
	d.in.applier.Close()
	d.socket.close()
}

// freshen implements source.
func (d *datagrams) freshen(until time.Time) {
	d.take()
	defer d.give()
	if d.closed {
		return
	}
	if d.parked {
		d.in.applier.Online()
		defer d.in.applier.Offline()
	}
	for {
		n, _ := d.socket.receive() // run sees the error, too
		if d.applyBatch(n); n < batchSize || time.Now().After(until) {
			return
		}
	}
}

// step does one round and reports whether another one follows.
func (d *datagrams) step(ctx context.Context) bool {
	d.take()
	defer d.give()
	if !d.draining && ctx.Err() != nil {
		d.draining, d.drainUntil = true, time.Now().Add(d.drainTimeout)
		d.socket.stopReceiving()
	}
	n, err := d.socket.receive()
	d.applyBatch(n)
	if d.draining {
		return n > 0 && err == nil && time.Now().Before(d.drainUntil)
	}
	switch {
	case err != nil:
		d.fail(ctx, err)
		return true
	case n > 0:
		d.backoff = 0
	}
	if n < batchSize {
		d.idleWait(n == 0)
		d.busySince, d.fullSince, d.othersTime = time.Time{}, time.Time{}, 0
	} else {
		d.yieldIfBusy()
	}
	return true
}

func (d *datagrams) applyBatch(n int) {
	for i := range n {
		d.from[i] = d.socket.senderAddress(i)
	}
	d.in.prefetchSenders(d.from[:n])
	for i, from := range d.from[:n] {
		d.in.setSender(from)
		if packet, cut := d.socket.packet(i); cut {
			d.in.applyTruncated(packet, metric.TooLong)
		} else {
			d.in.addPacket(packet)
		}
		if d.in.parsedLines >= parsedPerCheck {
			d.in.parsedLines = 0
			d.yieldIfBusy()
		}
	}
	d.in.endBatch()
	d.in.applier.Quiesce()
}

// idleWait lets datagrams gather: those that arrive meanwhile share a wake-up and a system call,
// which are most of the cost of a datagram with a single line. After an empty round it waits for
// the next datagram instead, so an idle socket costs nothing.
func (d *datagrams) idleWait(empty bool) {
	switch {
	case empty:
		d.countDrops()
		d.park(d.socket.wait)
	case d.socket.tookFew():
		d.park(d.socket.gatherFew)
	default:
		d.park(d.socket.gatherWait)
	}
}

// park waits with the applier offline.
func (d *datagrams) park(wait func()) {
	d.in.applier.Offline()
	d.parked = true
	d.give()
	wait()
	d.take()
	d.parked = false
	d.in.applier.Online()
}

// yieldIfBusy lets goroutines run that wait for the network, if they could not for a while. That
// while is at least as long as their last turn, so that a full socket gets half of the processor.
func (d *datagrams) yieldIfBusy() {
	switch now := time.Now(); {
	case d.busySince.IsZero():
		d.busySince, d.fullSince = now, now
	case now.Sub(d.busySince) > min(max(d.othersTime, minBusyTime), maxBusyTime):
		if now.Sub(d.fullSince) > overloadTime {
			d.socket.overloaded()
		}
		d.socket.yield()
		d.busySince = time.Now()
		d.othersTime = d.busySince.Sub(now)
	}
}

// fail backs off, so that a socket that always fails does not use up a core.
func (d *datagrams) fail(ctx context.Context, err error) {
	d.backoff = min(max(2*d.backoff, leastBackoff), maxBackoff)
	d.logger.Error("cannot read from the socket; retrying", "error", err, "after", d.backoff)
	d.park(func() { pause(ctx, d.backoff) })
}

func (d *datagrams) countDrops() { d.in.account.SetKernelDrops(d.socket.drops()) }

// pause sleeps until d has passed or ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
