package loadtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
