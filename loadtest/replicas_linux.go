package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// replicasScenario measures the cost of a second replica on the one that receives, and reads of
// merged values.
var replicasScenario = Scenario{
	Name: "replicas-2", About: "two replicas: CPU of the receiving one beside a single server's, traffic between them, reads of 1000 merged pods",
	ShortAbout: "two replicas: CPU of the receiving one beside a single server's, traffic between them, reads of 100 merged pods",
	TakesRate:  true, measure: measureReplicas,
}

// joinScenario measures the start of a second replica beside one with many series.
var joinScenario = Scenario{
	Name: "replica-join", About: "a replica starts beside one with 750000 counters: time until it has them, memory for them",
	ShortAbout: "a replica starts beside one with 4000 counters: time until it has them, memory for them",
	measure:    measureJoin,
}

type replicaSizes struct {
	lines, changing int // per second
	// known are the series of the load of lines, turns those of the load that changes each series
	// in turn.
	known, turns seriesSet
	pods, reads  int
	during       time.Duration
}

func replicaSizesOf(m *measurement) replicaSizes {
	sizes := replicaSizes{lines: 400_000, changing: 75_000, pods: 1_000, reads: 1_000, during: 20 * time.Second,
		known: newTaggedCounters(12, 2, 100, 5), turns: newTaggedCounters(50, 5, 600, 5)}
	if m.Short {
		sizes = replicaSizes{lines: 20_000, changing: 6_000, pods: 100, reads: 50, during: 2 * time.Second,
			known: newTaggedCounters(12, 2, 20, 2), turns: newTaggedCounters(12, 2, 100, 5)}
	}
	if m.rate > 0 {
		sizes.lines = m.rate
	}
	return sizes
}

func measureReplicas(ctx context.Context, m *measurement) ([]Figure, error) {
	sizes := replicaSizesOf(m)
	m.note("receiving_cpu is the share of a processor of the replica that gets %d lines/s of %d series, single_cpu that of a server without a second replica. "+
		"traffic is what a replica sends to the other while %d series change per second. Reads are of one metric of %d pods, each of which has pushed to both replicas.",
		sizes.lines, sizes.known.series(), sizes.changing, sizes.pods)
	known := Scenario{PerDatagram: 24, Seed: 41, series: sizes.known}
	single, err := m.receive(ctx, sizes, known, 1)
	if err != nil {
		return nil, fmt.Errorf("a single server: %w", err)
	}
	double, err := m.receive(ctx, sizes, known, 2)
	if err != nil {
		return nil, err
	}
	figures := []Figure{
		{Name: "single_cpu", Unit: "cores", Value: single.busy},
		{Name: "receiving_cpu", Unit: "cores", Value: double.busy},
		{Name: "receiving_cpu_by_single", Value: double.busy / single.busy, Aim: Aim{Most: 1.05}},
		{Name: "other_cpu", Unit: "cores", Value: double.otherBusy},
	}
	sizes.lines = sizes.changing
	changing, err := m.receive(ctx, sizes, Scenario{PerDatagram: 24, Seed: 42, series: sizes.turns}, 2)
	if err != nil {
		return nil, fmt.Errorf("changing series: %w", err)
	}
	figures = append(figures, Figure{Name: "traffic", Unit: "MB/s", Value: changing.sent / 1e6, Aim: Aim{Most: 4}},
		Figure{Name: "traffic_other_cpu", Unit: "cores", Value: changing.otherBusy})
	times, err := m.readMerged(ctx, sizes)
	return append(figures, times.figures("merged_read", Aim{Most: 10})...), err
}

// received are the measurements of a replica under load, and of the other one.
type received struct {
	busy, otherBusy float64 // shares of a processor
	sent            float64 // bytes per second to the other
}

func (m *measurement) receive(ctx context.Context, sizes replicaSizes, load Scenario,
	replicas int) (r received, err error) {
	all, err := m.startReplicas(ctx, replicas)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stopAll(all)) }()
	lines, err := m.startRounds(ctx, all[0], load, sizes.lines)
	if err != nil {
		return r, err
	}
	m.step("sending lines")
	measureErr := r.measure(ctx, all, sizes.during)
	if _, err = lines.stop(); err != nil || measureErr != nil {
		return r, errors.Join(measureErr, err)
	}
	_, err = lines.audit(ctx, 0)
	return r, err
}

func (r *received) measure(ctx context.Context, all []*server, during time.Duration) error {
	if err := rest(ctx, during/4); err != nil {
		return err
	}
	var before, after [2]replicaUse
	for i, s := range all {
		if err := before[i].read(ctx, s, len(all) > 1); err != nil {
			return err
		}
	}
	if err := rest(ctx, during); err != nil {
		return err
	}
	for i, s := range all {
		if err := after[i].read(ctx, s, len(all) > 1); err != nil {
			return err
		}
	}
	r.busy, r.sent = after[0].since(before[0])
	if len(all) > 1 {
		r.otherBusy, _ = after[1].since(before[1])
	}
	return nil
}

// replicaUse is what a replica has used and sent until a moment.
type replicaUse struct {
	at   time.Time
	cpu  time.Duration
	sent float64
}

func (u *replicaUse) read(ctx context.Context, s *server, joined bool) error {
	cpu, err := readCPU(s.pid())
	if err != nil {
		return err
	}
	u.at, u.cpu = time.Now(), cpu.total
	if !joined {
		return nil
	}
	said, err := s.meters(ctx)
	if err != nil {
		return err
	}
	u.sent, err = said.sum("sluice_replica_sent_bytes_total", nil)
	return err
}

func (u replicaUse) since(before replicaUse) (busy, sent float64) {
	took := u.at.Sub(before.at).Seconds()
	return (u.cpu - before.cpu).Seconds() / took, (u.sent - before.sent) / took
}

// readMerged pushes to both replicas for every pod, and reads all pods from one.
func (m *measurement) readMerged(ctx context.Context, sizes replicaSizes) (_ durations, err error) {
	all, err := m.startReplicas(ctx, 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopAll(all)) }()
	pods := podSet{namespaces: 1, each: sizes.pods, selected: sizes.pods}
	for _, s := range all {
		load := Scenario{PerDatagram: 1, Seed: 43, series: newPodCounters(pods, 1)}
		lines, err := m.startBackground(ctx, s, load, 1_000)
		if err != nil {
			return nil, err
		}
		if _, err := lines.stop(); err != nil {
			return nil, err
		}
	}
	if err := all[0].awaitShadow(ctx, sizes.pods); err != nil {
		return nil, err
	}
	m.step("reading merged pods")
	api, err := openAPI(ctx, all[0])
	if err != nil {
		return nil, err
	}
	defer closing(api, &err)
	request := getRequest(podsPath(podMetric(0)), jsonMedia)
	var times durations
	for len(times) < sizes.reads {
		begun := time.Now()
		body, err := api.ask200(request)
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(begun))
		if n, err := countItems(body); err != nil || n != sizes.pods {
			return nil, fmt.Errorf("an answer has %d pods; must have %d (%v)", n, sizes.pods, err)
		}
	}
	return times, ctx.Err()
}

func measureJoin(ctx context.Context, m *measurement) (_ []Figure, err error) {
	load := Scenario{PerDatagram: 24, Seed: 44, series: newTaggedCounters(50, 5, 600, 5)}
	if m.Short {
		load.series = newTaggedCounters(10, 2, 100, 2)
	}
	m.note("joined is the time from the start of the second replica's process until it is ready and has all series of the first. " +
		"shadow_bytes is the anonymous memory of the second replica less that of one beside an empty replica, per series.")
	empty, err := m.memoryBesideEmpty(ctx)
	if err != nil {
		return nil, err
	}
	addresses, err := freeTCP(2)
	if err != nil {
		return nil, err
	}
	first, err := m.startServer(ctx, replicaArgs(0, addresses)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, first.stop()) }()
	lines, err := m.startBackground(ctx, first, load, 1_000)
	if err != nil {
		return nil, err
	}
	if _, err := lines.stop(); err != nil {
		return nil, err
	}
	begun := time.Now()
	second, err := m.startServer(ctx, replicaArgs(1, addresses)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, second.stop()) }()
	ready := time.Since(begun)
	if err := second.awaitShadow(ctx, load.Series()); err != nil {
		return nil, err
	}
	joined := time.Since(begun)
	if err := rest(ctx, idleRestOf(m)); err != nil {
		return nil, err
	}
	memory, err := readMemory(second.pid())
	if err != nil {
		return nil, err
	}
	return []Figure{
		{Name: "ready", Unit: "s", Value: ready.Seconds()},
		{Name: "joined", Unit: "s", Value: joined.Seconds(), Aim: Aim{Most: 5}},
		{Name: "shadow_bytes", Unit: "B", Value: max(float64(memory.AnonBytes-empty), 0) / float64(load.Series()),
			Aim: Aim{Most: 150}},
		{Name: "peak", Unit: "MiB", Value: mebibytes(memory.PeakBytes)},
	}, nil
}

// memoryBesideEmpty returns the memory of a replica beside one without series.
func (m *measurement) memoryBesideEmpty(ctx context.Context) (_ int64, err error) {
	all, err := m.startReplicas(ctx, 2)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stopAll(all)) }()
	if err := rest(ctx, idleRestOf(m)); err != nil {
		return 0, err
	}
	memory, err := readMemory(all[1].pid())
	return memory.AnonBytes, err
}

func idleRestOf(m *measurement) time.Duration {
	if m.Short {
		return time.Second
	}
	return idleRest
}

// startReplicas starts servers that are replicas of one another, without TLS. One server has no
// replica.
func (m *measurement) startReplicas(ctx context.Context, n int) (all []*server, err error) {
	addresses, err := freeTCP(n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		var args []string
		if n > 1 {
			args = replicaArgs(i, addresses)
		}
		s, err := m.startServer(ctx, args...)
		if err != nil {
			return nil, errors.Join(err, stopAll(all))
		}
		all = append(all, s)
	}
	for _, s := range all {
		if err := s.awaitOrigins(ctx, n-1); err != nil {
			return nil, errors.Join(err, stopAll(all))
		}
	}
	return all, nil
}

func replicaArgs(i int, addresses []string) []string {
	return []string{"--replica-insecure", "--replica-name", fmt.Sprint("replica-", i), "--replica-listen", addresses[i],
		"--replica-peers", strings.Join(addresses, ",")}
}

// joinTimeout bounds the time until a replica has the series of another.
const joinTimeout = 2 * time.Minute

func (s *server) awaitOrigins(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	return s.awaitMeter(ctx, "the other replicas", "sluice_replica_origins", n)
}

// awaitShadow waits until the server has so many series of another.
func (s *server) awaitShadow(ctx context.Context, series int) error {
	return s.awaitMeter(ctx, "the series of the other replica", "sluice_replica_series", series)
}

func (s *server) awaitMeter(ctx context.Context, what, name string, least int) error {
	return s.await(ctx, what, joinTimeout, func() (bool, error) {
		said, err := s.meters(ctx)
		if err != nil {
			return false, err
		}
		got, err := said.sum(name, nil)
		if err != nil || got < float64(least) {
			return false, fmt.Errorf("%s is %v, want %d (%v)", name, got, least, err)
		}
		return true, nil
	})
}

func stopAll(all []*server) (err error) {
	for _, s := range all {
		err = errors.Join(err, s.stop())
	}
	return err
}
