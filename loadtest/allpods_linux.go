package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
