package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
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
