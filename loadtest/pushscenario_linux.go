package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
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
	one, err := openPushers(s.http, 1, groups, book)
	if err != nil {
		return nil, err
	}
	defer closing(one, &err)
	before, err := readCPU(s.pid())
	if err != nil {
		return nil, err
	}
	times, err := one.push(ctx, sizes.single, 0)
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
