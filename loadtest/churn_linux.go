package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// churnScenario measures the cost of new series, and the wait of a known series' line meanwhile. A
// wave of pods appears, their series expire, and a second wave appears. A short socket queue paces
// the new series: in a long queue every line would wait for the load, not for the server.
var churnScenario = Scenario{
	Name: "churn", About: "750000 new series, their expiry, and 750000 others; the wait of a known series' line",
	ShortAbout:  "150000 new series; the wait of a known series' line",
	PerDatagram: 24, Seed: 9, measure: measureChurn,
}

const (
	churnPods, shortChurnPods = 1500, 300 // in each of 5 namespaces, with 20 metrics and 5 codes
	churnQueue                = 128 << 10
	churnBurst                = 8 // datagrams between two reads of the queue
	churnTTL                  = 30 * time.Second
	// churnSweep bounds the time in which the table finds all expired series.
	churnSweep = 2 * time.Minute
	churnIdle  = time.Second
)

func measureChurn(ctx context.Context, m *measurement) (figures []Figure, err error) {
	s, err := m.startServer(ctx, "--object-ttl", churnTTL.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c := &churn{measurement: m, server: s, sent: packing{}}
	if c.idle, err = readMemory(s.pid()); err != nil {
		return nil, err
	}
	m.step("known lines on the idle server")
	before, err := watchKnown(ctx, s, func() error { return rest(ctx, churnIdle) })
	if err != nil {
		return nil, err
	}
	c.probes += before.sent
	first, err := c.wave(ctx, "new series", "web-")
	if err != nil {
		return nil, err
	}
	figures = append(first.figures(""), Figure{Name: "known_line_wait_idle_p99", Unit: "ms", Value: before.quantile(0.99)})
	if m.Short {
		return figures, nil
	}
	gone, err := c.awaitGone(ctx)
	if err != nil {
		return nil, err
	}
	second, err := c.wave(ctx, "new series again", "new-")
	if err != nil {
		return nil, err
	}
	return append(append(figures, gone), second.figures("second_")...), nil
}

// churn is one server and the lines sent to it.
type churn struct {
	*measurement
	server *server
	idle   Memory
	sent   packing // of all waves
	probes int64
}

// birth is the result of one wave of new series.
type birth struct {
	series float64
	cpu    time.Duration
	taking time.Duration
	known  knownWaits
	grown  Memory
}

func (b birth) figures(prefix string) []Figure {
	return []Figure{
		{Name: prefix + "new_series_on_a_core", Unit: "series/s", Value: b.series / b.cpu.Seconds(),
			Aim: Aim{Least: 500_000}},
		{Name: prefix + "new_series_rate", Unit: "series/s", Value: b.series / b.taking.Seconds()},
		{Name: prefix + "known_line_wait_p50", Unit: "ms", Value: b.known.quantile(0.5)},
		{Name: prefix + "known_line_wait_p99", Unit: "ms", Value: b.known.quantile(0.99)},
		{Name: prefix + "known_line_wait_max", Unit: "ms", Value: b.known.quantile(1), Aim: Aim{Most: 10}},
		{Name: prefix + "anon_bytes_per_series", Unit: "B", Value: float64(b.grown.AnonBytes) / b.series},
		{Name: prefix + "file_bytes_per_series", Unit: "B", Value: float64(b.grown.FileBytes) / b.series},
	}
}

// wave sends every series once. The names of the pods begin with the prefix pods.
func (c *churn) wave(ctx context.Context, what, pods string) (b birth, err error) {
	load := c.newSeries(pods)
	f, err := newFlood(&floodLoad{first: prepare(load), per: c.scenario.PerDatagram}, 1, c.server.udp)
	if err != nil {
		return birth{}, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	before, err := readCPU(c.server.pid())
	if err != nil {
		return birth{}, err
	}
	start := time.Now()
	b.known, err = watchKnown(ctx, c.server, func() error {
		err := c.sendWave(ctx, what, f)
		b.taking = time.Since(start)
		return err
	})
	if err != nil {
		return birth{}, err
	}
	c.probes += b.known.sent
	if err := rest(ctx, settleTime); err != nil {
		return birth{}, err
	}
	after, err := readCPU(c.server.pid())
	if err != nil {
		return birth{}, err
	}
	memory, err := readMemory(c.server.pid())
	if err != nil {
		return birth{}, err
	}
	b.series, b.cpu = float64(c.set().size()), after.total-before.total
	b.grown = Memory{AnonBytes: memory.AnonBytes - c.idle.AnonBytes, FileBytes: memory.FileBytes - c.idle.FileBytes}
	return b, c.check(ctx)
}

func (c *churn) set() taggedCounters {
	if c.Short {
		return newTaggedCounters(20, 5, shortChurnPods, 5)
	}
	return newTaggedCounters(20, 5, churnPods, 5)
}

func (c *churn) newSeries(pods string) datagrams {
	s := c.scenario
	s.series = c.set()
	d := s.warmUp()
	for i, packet := range d.packets {
		d.packets[i] = bytes.ReplaceAll(packet, []byte("pod:web-"), []byte("pod:"+pods))
	}
	return d
}

// sendWave sends a wave as fast as the server reads, and returns when everything is read.
func (c *churn) sendWave(ctx context.Context, what string, f *flood) error {
	c.step(what)
	wait := keepingUp(c.server.udp, churnQueue)
	for i := 0; i < len(f.first.headers); {
		if err := wait(ctx); err != nil {
			return err
		}
		n, err := f.send(f.first.headers[i:min(i+churnBurst, len(f.first.headers))])
		if err != nil {
			return err
		}
		for _, lines := range f.first.lines[i : i+n] {
			c.sent.add(lines, 1)
		}
		i += n
	}
	_, err := awaitEmpty(ctx, c.server.udp)
	return err
}

// check checks the accounting, and the sum of the live series after the last wave.
func (c *churn) check(ctx context.Context) error {
	q, err := readQueue(c.server.udp)
	if err != nil {
		return err
	}
	if q.drops > 0 {
		return fmt.Errorf("%w: %d datagrams were dropped though the queue was kept short: the machine is too busy",
			ErrUnaccounted, q.drops)
	}
	b := &accounting{warmUp: packing{1: c.probes}, load: c.sent}
	parts := c.set().parts()
	parts[0].worth = int64(c.set().size())
	return c.audit(ctx, c.server, b, parts)
}

// awaitGone waits until all series but the known one have expired, and returns the CPU time per
// series.
func (c *churn) awaitGone(ctx context.Context) (Figure, error) {
	before, err := readCPU(c.server.pid())
	if err != nil {
		return Figure{}, err
	}
	size := int64(c.set().size())
	c.step("waiting until the series expire")
	start := time.Now()
	err = c.server.await(ctx, "end of all series", churnTTL+churnSweep, func() (bool, error) {
		if err := rest(ctx, time.Second); err != nil {
			return false, err
		}
		live, err := readGauge(ctx, c.server.client, c.server.ops, "sluice_series")
		return err == nil && live <= 1, err
	})
	if err != nil {
		return Figure{}, err
	}
	after, err := readCPU(c.server.pid())
	c.note("Series expired %s after their last sample; their time to live is %s.",
		time.Since(start).Round(time.Second), churnTTL)
	return Figure{Name: "cpu_ns_per_gone_series", Unit: "ns",
		Value: float64(after.total-before.total) / float64(size)}, err
}
