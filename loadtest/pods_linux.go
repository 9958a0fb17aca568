package loadtest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// selectorScenario reads one metric of 1,000 pods by label selector under load.
var selectorScenario = Scenario{
	Name: "api-1k-pods", About: "one metric of 1000 pods by label selector under load, alone and among 150000",
	ShortAbout: "one metric of 100 pods by label selector under load, alone and among 2000",
	measure:    measureSelector,
}

type selectorSizes struct {
	selected, all  int // pods
	reads          int // at most
	linesPerSecond int
}

func selectorSizesOf(m *measurement) selectorSizes {
	sizes := selectorSizes{selected: 1_000, all: 150_000, reads: 1_000, linesPerSecond: 500_000}
	if m.Short {
		sizes = selectorSizes{selected: 100, all: 2_000, reads: 50, linesPerSecond: 20_000}
	}
	if m.rate > 0 {
		sizes.linesPerSecond = m.rate
	}
	return sizes
}

func measureSelector(ctx context.Context, m *measurement) ([]Figure, error) {
	sizes := selectorSizesOf(m)
	m.note("Times are those of complete answers over one keep-alive TLS connection, one request after the other. The pods are those of a "+
		"fake API server. The load is %d lines/s of tagged counters of all pods.", sizes.linesPerSecond)
	var figures []Figure
	for _, all := range []int{sizes.selected, sizes.all} {
		some, err := m.readSelected(ctx, sizes, all)
		if err != nil {
			return nil, fmt.Errorf("among %d pods: %w", all, err)
		}
		figures = append(figures, some...)
	}
	return figures, nil
}

// readSelected reads the selected pods' metric among all pods that have it.
func (m *measurement) readSelected(ctx context.Context, sizes selectorSizes, all int) (_ []Figure, err error) {
	pods := podSet{namespaces: 1, each: all, selected: sizes.selected}
	s, err := m.startInCluster(ctx, pods)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	load := Scenario{PerDatagram: 24, Seed: 21, series: newPodCounters(pods, 1)}
	lines, err := m.startBackground(ctx, s.server, load, sizes.linesPerSecond)
	if err != nil {
		return nil, err
	}
	m.step(fmt.Sprintf("reads of %d among %d pods", sizes.selected, all))
	times, readErr := s.timeSelected(ctx, sizes)
	perSecond, err := lines.stop()
	if err := errors.Join(readErr, err); err != nil {
		return nil, err
	}
	drops, err := lines.audit(ctx, 0)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("selected_among_%d", all)
	return append(times.figures(name, Aim{Most: 10}), Figure{Name: name + "_reads", Value: float64(len(times))},
		Figure{Name: name + "_lines_per_second", Unit: "lines/s", Value: perSecond},
		Figure{Name: name + "_dropped_datagrams", Value: float64(drops)}), nil
}

func (c *clusterServer) timeSelected(ctx context.Context, sizes selectorSizes) (_ durations, err error) {
	api, err := openAPI(ctx, c.server)
	if err != nil {
		return nil, err
	}
	defer closing(api, &err)
	request := getRequest(podsPath(podMetric(0))+"?labelSelector="+url.QueryEscape(selectedPods), jsonMedia)
	var times durations
	for end := time.Now().Add(readingTime); len(times) < sizes.reads &&
		(len(times) < leastReads || time.Now().Before(end)); {
		begun := time.Now()
		body, err := api.ask200(request)
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(begun))
		if n, err := countItems(body); err != nil || n != sizes.selected {
			return nil, fmt.Errorf("an answer has %d pods; must have %d (%v)", n, sizes.selected, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// Reads end after readingTime, but not before leastReads, so that there are enough for percentiles.
const (
	readingTime = 30 * time.Second
	leastReads  = 100
)

// podsPath returns the path of a metric of all pods in the first namespace.
func podsPath(metric string) string {
	return "/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + podNamespace(0) + "/pods/*/" + metric
}

// countItems returns the number of objects in a list in JSON. An object listed twice is an error.
func countItems(body []byte) (int, error) {
	var list struct {
		Items []struct {
			DescribedObject struct{ Name string }
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, err
	}
	seen := make(map[string]bool, len(list.Items))
	for _, item := range list.Items {
		seen[item.DescribedObject.Name] = true
	}
	if len(seen) != len(list.Items) {
		return 0, fmt.Errorf("%d items are about %d pods", len(list.Items), len(seen))
	}
	return len(seen), nil
}

// allPodsScenario reads the largest possible answer: one metric of 150,000 pods in one namespace.
var allPodsScenario = Scenario{
	Name: "api-150k-pods", About: "one metric of 150000 pods from an idle server, in JSON and protobuf",
	ShortAbout: "one metric of 3000 pods from an idle server, in JSON and protobuf",
	measure:    measureAllPods,
}

func measureAllPods(ctx context.Context, m *measurement) (figures []Figure, err error) {
	pods, reads := podSet{namespaces: 1, each: 150_000}, 10
	if m.Short {
		pods.each, reads = 3_000, 3
	}
	m.note("Times are those of complete answers over one keep-alive TLS connection. memory_before is the resident memory with all series " +
		"before the first read, memory_peak the maximum during the reads.")
	s, err := m.startInCluster(ctx, pods)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	lines, err := m.startBackground(ctx, s.server, Scenario{PerDatagram: 24, Seed: 22, series: newPodCounters(pods, 1)},
		1000)
	if err != nil {
		return nil, err
	}
	if _, err := lines.stop(); err != nil {
		return nil, err
	}
	if _, err := lines.settle(ctx); err != nil {
		return nil, err
	}
	want := allPodsAnswer{pods.size(), lines.sent()}
	before, err := readMemory(s.pid())
	if err != nil {
		return nil, err
	}
	figures = append(figures, Figure{Name: "memory_before", Unit: "MiB",
		Value: mebibytes(before.AnonBytes + before.FileBytes)})
	for _, as := range []struct {
		name, media string
		aim         Aim
		sum         func([]byte) (int, int64, error)
	}{
		{"protobuf", protobufMedia, Aim{Most: 150}, sumProtobuf},
		{"json", jsonMedia, Aim{Most: 500}, sumJSON},
	} {
		if err := resetPeak(s.pid()); err != nil {
			return nil, err
		}
		m.step("reads in " + as.name)
		times, size, err := s.timeAllPods(ctx, getRequest(podsPath(podMetric(0))+":total", as.media), reads, want, as.sum)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", as.name, err)
		}
		after, err := readMemory(s.pid())
		if err != nil {
			return nil, err
		}
		figures = append(append(figures, times.figures(as.name, as.aim)...),
			Figure{Name: as.name + "_answer", Unit: "MiB", Value: mebibytes(int64(size))},
			Figure{Name: as.name + "_memory_peak", Unit: "MiB", Value: mebibytes(after.PeakBytes)})
	}
	_, err = lines.audit(ctx, 0) // last: the audit reads everything, which costs memory too
	return figures, err
}

// allPodsPause is the time between two reads, so that one read's garbage isn't collected during the
// next.
const allPodsPause = 500 * time.Millisecond

// allPodsAnswer is the expected answer.
type allPodsAnswer struct {
	items int
	sum   int64
}

func (c *clusterServer) timeAllPods(ctx context.Context, request []byte, reads int, want allPodsAnswer,
	sum func([]byte) (int, int64, error)) (times durations, size int, err error) {
	api, err := openAPI(ctx, c.server)
	if err != nil {
		return nil, 0, err
	}
	defer closing(api, &err)
	for range reads {
		begun := time.Now()
		body, err := api.ask200(request)
		if err != nil {
			return nil, 0, err
		}
		times = append(times, time.Since(begun))
		got := allPodsAnswer{}
		if got.items, got.sum, err = sum(body); err != nil {
			return nil, 0, err
		}
		if got != want {
			return nil, 0, fmt.Errorf("%w:\nan answer has %d pods with the sum %d; must be %d and %d", ErrUnaccounted, got.items,
				got.sum, want.items, want.sum)
		}
		size = len(body)
		if err := rest(ctx, allPodsPause); err != nil {
			return nil, 0, err
		}
	}
	return times, size, nil
}

// largestScenario is the largest cluster: every pod sends its own metrics from its own address, a
// line per datagram.
var largestScenario = Scenario{
	Name: "largest-cluster", About: "150000 pods that each send 5 metrics every 10 s from their own addresses, a line per datagram",
	ShortAbout: "2000 pods that each send 5 metrics every 10 s from their own addresses, a line per datagram",
	measure:    measureLargest,
}

// podsMetrics is the number of metrics of each pod: the default limit.
const podsMetrics = 5

func measureLargest(ctx context.Context, m *measurement) (_ []Figure, err error) {
	pods, every, during := podSet{namespaces: 150, each: 1_000}, 10*time.Second, 30*time.Second
	if m.Short {
		pods, during = podSet{namespaces: 4, each: 500}, 3*time.Second
	}
	series := newPodCounters(pods, podsMetrics)
	series.untagged = true
	perSecond := int(float64(series.size()) / every.Seconds())
	if m.rate > 0 {
		perSecond = m.rate
	}
	m.note("The pods are those of a fake API server, with addresses in 127.0.0.0/8. Memory is the server's at the end, with its view of the cluster; " +
		"memory_peak includes the initial read of the pods; memory_idle is that before the first line.")
	s, err := m.startInCluster(ctx, pods)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	idle, err := readMemory(s.pid())
	if err != nil {
		return nil, err
	}
	load := Scenario{PerDatagram: 1, Seed: 26, series: series}
	sender, err := newFloodOfPods(load, s.server, series)
	if err != nil {
		return nil, err
	}
	lines, err := m.startFlood(ctx, s.server, load, sender, perSecond)
	if err != nil {
		return nil, err
	}
	m.step("sending lines")
	busy, watchErr := watchBusy(ctx, s.server, during)
	sent, err := lines.stop()
	if err := errors.Join(watchErr, err); err != nil {
		return nil, err
	}
	if sent < heldPace*float64(perSecond) {
		return nil, fmt.Errorf("the sender reached %.0f of %d lines per second; the machine is too busy", sent, perSecond)
	}
	memory, err := readMemory(s.pid())
	if err != nil {
		return nil, err
	}
	drops, err := lines.audit(ctx, 0)
	if err != nil {
		return nil, err
	}
	return []Figure{
		{Name: "lines_per_second", Unit: "lines/s", Value: sent},
		{Name: "dropped_datagrams", Value: float64(drops)},
		{Name: "server_cpu", Unit: "cores", Value: busy, Aim: Aim{Most: 0.2}},
		{Name: "memory_anon", Unit: "MiB", Value: mebibytes(memory.AnonBytes), Aim: Aim{Most: 600}},
		{Name: "memory_file", Unit: "MiB", Value: mebibytes(memory.FileBytes)},
		{Name: "memory_peak", Unit: "MiB", Value: mebibytes(memory.PeakBytes)},
		{Name: "memory_idle", Unit: "MiB", Value: mebibytes(idle.AnonBytes)},
	}, nil
}

// watchBusy returns the share of a processor that the server uses during the given time.
func watchBusy(ctx context.Context, s *server, during time.Duration) (float64, error) {
	before, err := readCPU(s.pid())
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := rest(ctx, during); err != nil {
		return 0, err
	}
	after, err := readCPU(s.pid())
	return (after.total - before.total).Seconds() / time.Since(begun).Seconds(), err
}

// newFloodOfPods prepares lines of all series in turn, each sent from the address of the series'
// pod.
func newFloodOfPods(load Scenario, s *server, series podCounters) (*flood, error) {
	order := load.random(0).Perm(series.size())
	d := load.pack(len(order), nil, func(line int) int { return order[line] })
	prepared := prepare(d)
	prepared.sendFrom(func(i int) [4]byte { return series.pods.address(order[i] / series.metrics).As4() })
	return newFlood(&floodLoad{first: prepared, rest: prepared, per: load.PerDatagram}, 1, s.udp)
}

// sendFrom sets the source address of each datagram with IP_PKTINFO, see ip(7): ipi_spec_dst is the
// source address of a sent datagram.
func (p *prepared) sendFrom(address func(datagram int) [4]byte) {
	space := unix.CmsgSpace(unix.SizeofInet4Pktinfo)
	memory := make([]byte, len(p.headers)*space)
	for i := range p.headers {
		control := memory[i*space : (i+1)*space : (i+1)*space]
		header := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		header.Level, header.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
		header.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
		info := control[unix.CmsgLen(0):]
		binary.NativeEndian.PutUint32(info, 0) // any interface
		from := address(i)
		copy(info[4:8], from[:])
		p.headers[i].header.Control = &control[0]
		p.headers[i].header.SetControllen(space)
	}
}
