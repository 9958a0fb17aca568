package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"
)

// sender sends a scenario's lines to one address. It counts the datagrams that the kernel took.
type sender interface {
	// warmUp sends lines so slowly that none is dropped.
	warmUp(ctx context.Context, how warmUp) (packing, error)
	// load sends lines at most perSecond (0: flat out).
	load(ctx context.Context, lines int64, perSecond int) (packing, error)
	close() error
}

// warmUp is the plan of a warm-up.
type warmUp struct {
	lines, perSecond int
	// look is the number of datagrams between two calls of wait, for prepared datagrams.
	look int
	// wait returns when the receiver keeps up.
	wait func(context.Context) error
}

const (
	// singleWarmUpRate is the warm-up rate for datagrams of one line and for other servers, in
	// lines per second.
	singleWarmUpRate = 50_000
	// warmUpRate is the warm-up rate for full datagrams. A server makes new series at several times
	// this rate.
	warmUpRate = 150_000
	// floorWarmUp is the number of lines that warm up a floor, which keeps no series.
	floorWarmUp = 50_000
)

// application sends as an application with go-statsd-client does: one call per line. The client
// packs the lines into datagrams.
type application struct {
	scenario Scenario
	series   taggedCounters
	address  string
}

const (
	// flushInterval is the client library's default, made explicit.
	flushInterval = 300 * time.Millisecond
	// callsBetweenLooks is the number of calls between two reads of the clock.
	callsBetweenLooks = 128
)

func (a application) warmUp(ctx context.Context, how warmUp) (packing, error) {
	random := a.scenario.random(0)
	order := random.Perm(a.series.size())
	return a.calls(ctx, callPlan{
		lines: int64(min(how.lines, len(order))), perSecond: how.perSecond, wait: how.wait,
		drawn: func(i int64) int { return order[i] },
	})
}

func (a application) load(ctx context.Context, lines int64, perSecond int) (packing, error) {
	random := a.scenario.random(1)
	return a.calls(ctx, callPlan{
		lines: lines, perSecond: perSecond,
		drawn: func(i int64) int { return a.series.draw(i, random) },
	})
}

type callPlan struct {
	lines     int64
	perSecond int
	wait      func(context.Context) error // nil: no wait
	drawn     func(line int64) int
}

// calls opens a client, makes the calls, and closes the client, which flushes the buffer.
func (a application) calls(ctx context.Context, plan callPlan) (_ packing, err error) {
	counted, client, err := a.connect()
	if err != nil {
		return nil, err
	}
	pace := newPace(plan.perSecond)
	for i := int64(0); i < plan.lines && err == nil; i++ {
		if err = a.series.call(client, plan.drawn(i)); err == nil && i%callsBetweenLooks == 0 {
			err = pace.after(ctx, i)
			if err == nil && plan.wait != nil {
				err = plan.wait(ctx)
			}
		}
	}
	err = errors.Join(err, client.Close())
	if counted.failed != nil {
		err = errors.Join(err, fmt.Errorf("send to the server: %w", counted.failed))
	}
	return counted.sent, err
}

// connect works like statsd.NewClientWithConfig, with a counter before the socket.
func (a application) connect() (*countingSender, statsd.Statter, error) {
	socket, err := statsd.NewSimpleSender(a.address)
	if err != nil {
		return nil, nil, err
	}
	counted := &countingSender{Sender: socket, sent: packing{}}
	through, err := statsd.NewBufferedSenderWithSender(counted, flushInterval, maxDatagram)
	if err != nil {
		return nil, nil, errors.Join(err, socket.Close())
	}
	client, err := statsd.NewClientWithSender(through, "", statsd.SuffixOctothorpe)
	if err != nil {
		return nil, nil, errors.Join(err, through.Close())
	}
	return counted, client, nil
}

func (application) close() error { return nil }

// countingSender counts the datagrams that the socket took. One goroutine of the client calls Send.
// That goroutine has ended when Close returns; only then may the counts be read.
type countingSender struct {
	statsd.Sender
	sent   packing
	failed error // the first error; the client's goroutine would swallow it
}

// Send implements statsd.Sender.
func (c *countingSender) Send(datagram []byte) (int, error) {
	n, err := c.Sender.Send(datagram)
	if err != nil {
		if c.failed == nil {
			c.failed = err
		}
		return n, err
	}
	c.sent.add(bytes.Count(datagram, []byte{'\n'})+1, 1)
	return n, nil
}
