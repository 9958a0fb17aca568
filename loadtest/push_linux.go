package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// pushScenario measures HTTP push in the Pushgateway's format: requests per second on a core,
// latencies at half that rate, and the cost of a push among many groups.
var pushScenario = Scenario{
	Name: "push-5k", About: "HTTP push of three families to 5000 groups over 32 connections, and among up to 100000 groups",
	ShortAbout: "HTTP push of three families to 200 groups over 8 connections, and among up to 1000 groups",
	measure:    measurePush,
}

// pushSizes are the sizes of pushScenario.
type pushSizes struct {
	groups, connections int
	flatOut, paced      int   // pushes
	present             []int // groups among which single pushes are timed
	single              int   // pushes timed among each
}

func pushSizesOf(short bool) pushSizes {
	if short {
		return pushSizes{groups: 200, connections: 8, flatOut: 2_000, paced: 1_000,
			present: []int{10, 100, 1_000}, single: 100}
	}
	return pushSizes{groups: 5_000, connections: 32, flatOut: 500_000, paced: 200_000,
		present: []int{1_000, 10_000, 100_000}, single: 5_000}
}

func measurePush(ctx context.Context, m *measurement) ([]Figure, error) {
	sizes := pushSizesOf(m.Short)
	m.note("requests_on_a_core is 1 / cpu_per_request. requests_per_second is measured; with client_busy near 1 the client was the limit. " +
		"Times at half that rate start when a push is due; the floor has the same rate, not half of its own.")
	flat, half, err := m.pushFlatOut(ctx, sizes)
	if err != nil {
		return nil, err
	}
	floor, err := m.pushFloor(ctx, sizes, half)
	if err != nil {
		return nil, err
	}
	among, err := m.pushAmong(ctx, sizes)
	return append(append(flat, floor...), among...), err
}

// pushFlatOut pushes as fast as the server answers, then at half that rate. It returns the half.
func (m *measurement) pushFlatOut(ctx context.Context, sizes pushSizes) (figures []Figure, half float64, err error) {
	s, err := m.startServer(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	book := &pushTotals{}
	p, err := openPushers(s.http, sizes.connections, sizes.groups, book)
	if err != nil {
		return nil, 0, err
	}
	defer closing(p, &err)
	if _, err := p.push(ctx, sizes.groups, 0); err != nil { // warm-up: every group once
		return nil, 0, err
	}
	flat, err := m.timePushes(ctx, p, s.pid(), sizes.flatOut)
	if err != nil {
		return nil, 0, err
	}
	half = flat.perSecond / 2
	m.step("at half that rate")
	times, err := p.push(ctx, sizes.paced, half)
	if err != nil {
		return nil, 0, fmt.Errorf("at %.0f requests a second: %w", half, err)
	}
	if err := auditPushes(ctx, s, book); err != nil {
		return nil, 0, err
	}
	figures = append(flat.figures("", Aim{Least: 50_000}), Figure{Name: "client_busy", Value: flat.clientBusy})
	return append(figures, times.figures("time_at_half_rate", Aim{Most: 5})...), half, nil
}

// flatOut is the cost of pushing flat out.
type flatOut struct {
	perSecond              float64
	cpu                    time.Duration // per request
	serverBusy, clientBusy float64
}

// figures returns the figures, named with a prefix. The aim applies to the requests on a core.
func (f flatOut) figures(prefix string, aim Aim) []Figure {
	return []Figure{
		{Name: prefix + "requests_per_second", Unit: "requests/s", Value: f.perSecond},
		{Name: prefix + "cpu_per_request", Unit: "µs", Value: microseconds(f.cpu)},
		{Name: prefix + "requests_on_a_core", Unit: "requests/s", Value: 1 / f.cpu.Seconds(), Aim: aim},
		{Name: prefix + "server_busy", Value: f.serverBusy},
	}
}

func microseconds(d time.Duration) float64 { return d.Seconds() * 1e6 }

// timePushes pushes flat out and measures both processes' CPU time.
func (m *measurement) timePushes(ctx context.Context, p *pushers, server, pushes int) (f flatOut, err error) {
	m.step("flat out")
	before, err := readBoth(server)
	if err != nil {
		return f, err
	}
	start := time.Now()
	if _, err := p.push(ctx, pushes, 0); err != nil {
		return f, err
	}
	took := time.Since(start)
	after, err := readBoth(server)
	if err != nil {
		return f, err
	}
	cpu := after.server.total - before.server.total
	return flatOut{
		perSecond: float64(pushes) / took.Seconds(), cpu: cpu / time.Duration(pushes),
		serverBusy: cpu.Seconds() / took.Seconds(),
		clientBusy: (after.client.total - before.client.total).Seconds() / took.Seconds(),
	}, nil
}

// bothCPU is the CPU time of server and client.
type bothCPU struct{ server, client cpuTime }

func readBoth(server int) (b bothCPU, err error) {
	if b.server, err = readCPU(server); err == nil {
		b.client, err = readOneCPU(os.Getpid())
	}
	return b, err
}

// pushAmong times single pushes over one connection, among ever more groups.
func (m *measurement) pushAmong(ctx context.Context, sizes pushSizes) (figures []Figure, err error) {
	s, err := m.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	book := &pushTotals{}
	for _, groups := range sizes.present {
		among, err := m.pushAmongGroups(ctx, s, book, groups, sizes)
		if err != nil {
			return nil, fmt.Errorf("among %d groups: %w", groups, err)
		}
		figures = append(figures, among...)
	}
	return figures, auditPushes(ctx, s, book)
}

func (m *measurement) pushAmongGroups(ctx context.Context, s *server, book *pushTotals, groups int,
	sizes pushSizes) (_ []Figure, err error) {
	many, err := openPushers(s.http, sizes.connections, groups, book)
	if err != nil {
		return nil, err
	}
	defer closing(many, &err)
	m.step(fmt.Sprintf("single pushes among %d groups", groups))
	if _, err := many.push(ctx, groups, 0); err != nil {
		return nil, err
	}
	if err := awaitIdle(ctx, s.child); err != nil { // new groups are persisted for a while
		return nil, err
	}
	p, err := openPushers(s.http, 1, groups, book)
	if err != nil {
		return nil, err
	}
	defer closing(p, &err)
	before, err := readCPU(s.pid())
	if err != nil {
		return nil, err
	}
	times, err := p.push(ctx, sizes.single, 0)
	if err != nil {
		return nil, err
	}
	after, err := readCPU(s.pid())
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("push_among_%d", groups)
	cpu := Figure{Name: name + "_cpu", Unit: "µs",
		Value: microseconds((after.total - before.total) / time.Duration(sizes.single))}
	return append(times.figures(name, Aim{}), cpu), nil
}

// auditPushes checks that every sample was applied and that every group has the last number pushed.
func auditPushes(ctx context.Context, s *server, book *pushTotals) error {
	said, err := s.meters(ctx)
	if err != nil {
		return err
	}
	entered, err := said.ledgerOf("http")
	if err != nil {
		return err
	}
	answered, err := said.sum("sluice_http_requests_total", map[string]string{"method": "PUT", "code": "200"})
	if err != nil {
		return err
	}
	sum, err := total(ctx, s.client, s.http, []string{"/v1/external/batch_position"})
	if err != nil {
		return err
	}
	samples := samplesAPush * book.pushed
	if int64(answered) != book.pushed || entered.received != samples || entered.applied != samples ||
		entered.rejected != 0 {
		return fmt.Errorf("%w:\n%d pushes of %d samples were answered; the server says that it answered %.0f, received %d samples, applied %d and rejected %d",
			ErrUnaccounted, book.pushed, samplesAPush, answered, entered.received, entered.applied, entered.rejected)
	}
	if sum != book.sum() {
		return fmt.Errorf("%w:\nthe last pushes of all groups add up to %d, and the groups to %d",
			ErrUnaccounted, book.sum(), sum)
	}
	return nil
}

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
