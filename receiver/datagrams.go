package receiver

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// gatherTime is the sleep after a batch that was not full. Datagrams that arrive meanwhile
	// share one system call and one wake-up, which are most of the cost of a datagram with a single
	// line.
	gatherTime = time.Millisecond
	// idleRounds is the number of empty sleeps before the goroutine blocks until data arrives, so
	// that an idle socket costs nothing. A higher number costs more for a slow sender, whose every
	// datagram is followed by all these sleeps; a lower one for a sender with a period of about
	// gatherTime.
	idleRounds = 2
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
)

// datagrams reads one datagram socket, udp or unixgram, and applies every datagram before it reads
// the next batch. It owns the socket. packetSocket (on Linux, recvmmsg outside Go's poller) blocks
// in wait only.
//
// The goroutine is not locked to a thread: a goroutine that sleeps on its own thread costs two
// thread switches per wake-up.
type datagrams struct {
	in           *ingester
	socket       *packetSocket
	drainTimeout time.Duration
	logger       *slog.Logger

	from       [batchSize]netip.Addr // senders of the current batch
	draining   bool                  // the socket receives no more
	drainUntil time.Time             // set when draining begins
	idle       int                   // consecutive empty rounds
	backoff    time.Duration
	busySince  time.Time     // start of a row of full batches; zero: the last batch was not full
	othersTime time.Duration // how long other goroutines had the processor at the last yield
}

// run serves until ctx ends. Then it stops receiving, applies the data that has arrived, and closes
// the socket.
func (d *datagrams) run(ctx context.Context) {
	defer d.socket.close()
	defer d.in.applier.Close()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { d.socket.wake(); close(woken) })
	defer func() {
		if !stop() {
			<-woken // or wake would write to a closed or reused descriptor
		}
	}()
	for round := 1; d.step(ctx); round++ {
		if round%dropsEvery == 0 {
			d.countDrops()
		}
	}
	d.countDrops()
}

// step does one round and reports whether another one follows.
func (d *datagrams) step(ctx context.Context) bool {
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
	case n == 0:
		d.idle++
	default:
		d.idle, d.backoff = 0, 0
	}
	if n < batchSize {
		d.idleWait()
		d.busySince, d.othersTime = time.Time{}, 0
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

func (d *datagrams) idleWait() {
	if d.idle <= idleRounds {
		time.Sleep(gatherTime)
		return
	}
	d.countDrops()
	d.idle = 0
	d.in.applier.Offline()
	d.socket.wait()
	d.in.applier.Online()
}

// yieldIfBusy lets goroutines run that wait for the network, if they could not for a while. That
// while is at least as long as their last turn, so that a full socket gets half of the processor.
func (d *datagrams) yieldIfBusy() {
	switch now := time.Now(); {
	case d.busySince.IsZero():
		d.busySince = now
	case now.Sub(d.busySince) > min(max(d.othersTime, minBusyTime), maxBusyTime):
		d.socket.yield()
		d.busySince = time.Now()
		d.othersTime = d.busySince.Sub(now)
	}
}

// fail backs off, so that a socket that always fails does not use up a core.
func (d *datagrams) fail(ctx context.Context, err error) {
	d.backoff = min(max(2*d.backoff, gatherTime), maxBackoff)
	d.logger.Error("cannot read from the socket; retrying", "error", err, "after", d.backoff)
	d.in.applier.Offline()
	pause(ctx, d.backoff)
	d.in.applier.Online()
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
