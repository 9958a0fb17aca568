package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// afterglow is how long is waited after the last line, before and after the load: longer than until the server
// has written what changed.
const afterglow = 800 * time.Millisecond

// poured is what a sender sent.
type poured struct{ warmUp, load packing }

// pour warms a child up, gives it the load, and reads its CPU clock around that. How many lines it took is
// for the caller to find out.
func (m *measurement) pour(ctx context.Context, to subject) (sent poured, taken Taken, err error) {
	s, err := m.newSender(to.udp)
	if err != nil {
		return sent, Taken{}, err
	}
	defer func() { err = errors.Join(err, s.close(), to.alive()) }()
	if sent.warmUp, err = m.warmUp(ctx, s, to); err != nil {
		return sent, Taken{}, err
	}
	before, err := readCPU(to.pid())
	if err != nil {
		return sent, Taken{}, err
	}
	if sent.load, err = m.load(ctx, s, to, &taken); err != nil {
		return sent, Taken{}, err
	}
	q, err := m.settle(ctx, to)
	if err != nil {
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

// subject is a process that gets a load.
type subject struct {
	*child
	what string // for whoever watches
	udp  netip.AddrPort
	// warmUpLines and warmUpRate are how it is warmed up: every series once, but for the floors.
	warmUpLines, warmUpRate int
	// foreign servers may go on working after the socket is empty.
	foreign bool
}

// warmUp gives it the first lines, of which none may be lost.
func (m *measurement) warmUp(ctx context.Context, s sender, to subject) (packing, error) {
	m.step(to.what + ", warm-up")
	warm, err := s.warmUp(ctx, to.gently())
	if err != nil {
		return warm, err
	}
	q, err := m.settle(ctx, to)
	if err == nil && q.drops > 0 {
		err = to.warmUpLoss(q.drops)
	}
	return warm, err
}

// gently is how it is warmed up. The buffer of one that is not ours may be as small as the kernel makes them.
func (s subject) gently() warmUp {
	if s.foreign {
		return warmUp{s.warmUpLines, s.warmUpRate, foreignLook, keepingUp(s.udp, foreignQueue)}
	}
	return warmUp{s.warmUpLines, s.warmUpRate, warmUpLook, keepingUp(s.udp, warmUpQueue)}
}

func (s subject) warmUpLoss(datagrams int64) error {
	why := "the machine is too busy"
	if s.foreign {
		why += ", or the target's socket buffer too small: want 4 MiB, if it has a setting for that"
	}
	return fmt.Errorf("%w: %d datagrams of the slow warm-up were dropped: %s", ErrBooks, datagrams, why)
}

const (
	// foreignQueue and foreignLook datagrams more, of 2,304 bytes of a socket's memory, fit the usual default of 208 KiB.
	foreignQueue = 64 << 10
	foreignLook  = 8
)

// warmUpQueue is how many bytes may wait in the kernel while it is warmed up: a fraction of the buffer.
const warmUpQueue = 1 << 20

// keepingUp waits until less than so many bytes wait at the address.
func keepingUp(udp netip.AddrPort, most int64) func(context.Context) error {
	return func(ctx context.Context) error {
		for deadline := time.Now().Add(quietPatience); ; {
			q, err := readQueue(udp)
			if err != nil || q.waiting < most {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%d bytes still wait at %s after %s: the server does not read", q.waiting, udp, quietPatience)
			}
			if err := rest(ctx, quietPoll); err != nil {
				return err
			}
		}
	}
}

// load sends the measured lines and takes the times.
func (m *measurement) load(ctx context.Context, s sender, to subject, taken *Taken) (packing, error) {
	m.step(to.what)
	start := time.Now()
	load, err := s.load(ctx, m.lines, m.Rate)
	taken.Sending = time.Since(start)
	if err != nil {
		return load, err
	}
	_, err = awaitEmpty(ctx, to.udp)
	taken.Taking = time.Since(start)
	return load, err
}

// settle waits until all was read, and then for what that leaves to do.
func (m *measurement) settle(ctx context.Context, s subject) (queue, error) {
	if _, err := awaitEmpty(ctx, s.udp); err != nil {
		return queue{}, err
	}
	m.step("what the lines leave to do")
	if err := rest(ctx, afterglow); err != nil {
		return queue{}, err
	}
	if s.foreign {
		if err := awaitIdle(ctx, s.child); err != nil {
			return queue{}, err
		}
	}
	return readQueue(s.udp)
}

const (
	idleLook     = 500 * time.Millisecond
	idleShare    = 0.1 // of a processor
	idlePatience = 20 * time.Second
)

// awaitIdle waits until a process does little: it may have taken lines off its socket that it has yet to
// work on. One that never rests is not waited for longer than it takes to be sure.
func awaitIdle(ctx context.Context, c *child) error {
	for begun := time.Now(); time.Since(begun) < idlePatience; {
		before, err := readCPU(c.pid())
		if err != nil {
			return err
		}
		if err := rest(ctx, idleLook); err != nil {
			return err
		}
		after, err := readCPU(c.pid())
		if err != nil || float64(after.total-before.total) < idleShare*float64(idleLook) {
			return err
		}
	}
	return nil
}
