package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// The HTTP floor writes two lines of JSON to standard output, as the floors for datagrams do.
type (
	httpFloorOpened struct {
		Address string `json:"address"`
	}
	httpFloorCounted struct {
		Requests int64 `json:"requests"`
		Bytes    int64 `json:"bytes"` // of bodies
	}
)

// answer runs a bare fasthttp server, the base of the push receiver. The server reads bodies whole
// and answers 200 until in or ctx ends.
func answer(ctx context.Context, in io.Reader, out io.Writer) error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var requests, bytes atomic.Int64
	server := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(c *fasthttp.RequestCtx) {
		requests.Add(1)
		bytes.Add(int64(len(c.PostBody())))
		c.SetContentType(jsonMedia)
		c.SetBodyString(`{"applied":3}`)
	}}
	if err := json.NewEncoder(out).Encode(httpFloorOpened{listener.Addr().String()}); err != nil {
		return errors.Join(err, listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		err = errors.Join(server.Shutdown(), <-served)
	}
	return errors.Join(err, json.NewEncoder(out).Encode(httpFloorCounted{requests.Load(), bytes.Load()}))
}

// pushFloor sends the same pushes to the floor: flat out, then at the rate at which the server was
// timed. The floor's latency is that of the load test and the machine.
func (m *measurement) pushFloor(ctx context.Context, sizes pushSizes, perSecond float64) (_ []Figure, err error) {
	f := &floorChild{}
	var opened httpFloorOpened
	if err := f.start(answering, m.processors.server, &opened); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	book := &pushTotals{}
	p, err := openPushers(opened.Address, sizes.connections, sizes.groups, book)
	if err != nil {
		return nil, err
	}
	flat, times, err := m.timeFloor(ctx, p, f.pid(), sizes, perSecond)
	if err := errors.Join(err, p.close()); err != nil { // the floor ends when all connections are closed
		return nil, err
	}
	var counted httpFloorCounted
	if err := f.conclude(&counted); err != nil {
		return nil, err
	}
	if counted.Requests != book.pushed || counted.Bytes != book.pushed*int64(newPushRequest().body) {
		return nil, fmt.Errorf("%w:\nfloor: %d pushes were answered, and it counted %d with %d bytes", ErrUnaccounted,
			book.pushed, counted.Requests, counted.Bytes)
	}
	figures := append(flat.figures("floor_", Aim{}), Figure{Name: "floor_client_busy", Value: flat.clientBusy})
	return append(figures, times.figures("floor_time_at_same_rate", Aim{})...), nil
}

func (m *measurement) timeFloor(ctx context.Context, p *pushers, pid int, sizes pushSizes,
	perSecond float64) (f flatOut, times durations, err error) {
	if _, err := p.push(ctx, sizes.groups, 0); err != nil {
		return f, nil, err
	}
	if f, err = m.timePushes(ctx, p, pid, sizes.flatOut); err != nil {
		return f, nil, err
	}
	m.step("floor, at the same rate")
	times, err = p.push(ctx, sizes.paced, perSecond)
	return f, times, err
}
