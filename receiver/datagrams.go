package receiver

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// gatherTime is the sleep after a batch that was not full: datagrams that gather meanwhile share one
	// system call and one wake-up, which is most of the cost of a datagram with a single line.
	gatherTime = time.Millisecond
	// idleRounds is how many empty sleeps come before the goroutine blocks until something arrives, so that
	// an idle socket costs nothing. More of them make a slow sender dearer (each of its datagrams is followed
	// by all these sleeps), fewer one that sends about once a gatherTime.
	idleRounds = 2
	// dropsEvery is after how many rounds of steady work the kernel is asked what it dropped.
	dropsEvery = 256
	maxBackoff = time.Second
	// parsedAtOnce is after how many lines that were parsed the clock is looked at within a batch: one of 32 datagrams full of new
	// series takes two milliseconds, a hundred times one of known ones.
	parsedAtOnce = 100
	// steadyTime is how long a goroutine that finds its socket full every time keeps the processor before it lets others have it.
	steadyTime = time.Millisecond
	// steadyMost bounds it where others had the processor longer: Go gives a goroutine 10 ms too, the kernel a process some.
	steadyMost = 10 * time.Millisecond
)

// datagrams reads one datagram socket, udp or unixgram, and runs to completion: what it reads it applies.
// It has the socket to itself; packetSocket (linux: recvmmsg on a descriptor outside Go's poller) never
// blocks but in wait.
//
// The goroutine is not locked to a thread: a sleeping goroutine on a thread of its own costs two thread
// switches a wake-up.
type datagrams struct {
	in           *intake
	socket       *packetSocket
	drainTimeout time.Duration
	logger       *slog.Logger

	from       [batchSize]netip.Addr // of the batch in hand
	sealed     bool                  // no datagram can arrive any more
	drainUntil time.Time             // once sealed
	idle       int                   // empty rounds in a row
	backoff    time.Duration
	steady     time.Time     // since when every batch was full; zero: the last one was not
	others     time.Duration // how long they had the processor the last time
}

// run serves until ctx ends, then shuts the socket's entrance, reads on until it is empty, and closes it.
func (d *datagrams) run(ctx context.Context) {
	defer d.socket.close()
	defer d.in.applier.Close()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { d.socket.wake(); close(woken) })
	defer func() {
		if !stop() {
			<-woken // or it would write to a descriptor that is closed, or somebody else's
		}
	}()
	for round := 1; d.step(ctx); round++ {
		if round%dropsEvery == 0 {
			d.countDrops()
		}
	}
	d.countDrops()
}

// step does one round and reports whether there is another one.
func (d *datagrams) step(ctx context.Context) bool {
	if !d.sealed && ctx.Err() != nil {
		d.sealed, d.drainUntil = true, time.Now().Add(d.drainTimeout)
		d.socket.seal()
	}
	n, err := d.socket.receive()
	d.take(n)
	if d.sealed {
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
		d.rest()
		d.steady, d.others = time.Time{}, 0
	} else {
		d.takeTurns()
	}
	return true
}

func (d *datagrams) take(n int) {
	for i := range n {
		d.from[i] = d.socket.from(i)
	}
	d.in.expect(d.from[:n])
	for i, from := range d.from[:n] {
		d.in.from(from)
		if packet, cut := d.socket.packet(i); cut {
			d.in.takeCut(packet, metric.TooLong)
		} else {
			d.in.gather(packet)
		}
		if d.in.parsed >= parsedAtOnce {
			d.in.parsed = 0
			d.takeTurns()
		}
	}
	d.in.settle()
	d.in.applier.Quiesce()
}

func (d *datagrams) rest() {
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

// takeTurns lets others run who wait for the network, if none could for a while: for as long as they had it the last time, so that a
// full socket has half of the processor also where their turns are long.
func (d *datagrams) takeTurns() {
	switch now := time.Now(); {
	case d.steady.IsZero():
		d.steady = now
	case now.Sub(d.steady) > min(max(d.others, steadyTime), steadyMost):
		d.socket.yield()
		d.steady = time.Now()
		d.others = d.steady.Sub(now)
	}
}

// fail backs off: a socket that fails at once, again and again, must not take a core.
func (d *datagrams) fail(ctx context.Context, err error) {
	d.backoff = min(max(2*d.backoff, gatherTime), maxBackoff)
	d.logger.Error("cannot read from the socket, trying again", "error", err, "after", d.backoff)
	d.in.applier.Offline()
	pause(ctx, d.backoff)
	d.in.applier.Online()
}

func (d *datagrams) countDrops() { d.in.account.SetKernelDrops(d.socket.drops()) }

// pause sleeps, but not on when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
