package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// visibleScenario measures the time from a push until a reader of the metrics API sees the value.
var visibleScenario = Scenario{
	Name: "visible", About: "time from a push, over UDP and HTTP, to the first answer of the metrics API with the value, under load",
	TakesRate: true, measure: measureVisible,
}

// visibleLinesPerSecond is the default load: below half of the lossless rate of a core of 2025.
const visibleLinesPerSecond = 1_000_000

func measureVisible(ctx context.Context, m *measurement) (figures []Figure, err error) {
	perSecond, pushes := visibleLinesPerSecond, 1_000
	if m.Short {
		perSecond, pushes = 20_000, 30
	}
	if m.rate > 0 {
		perSecond = m.rate
	}
	m.note("Times end with the first complete answer over a keep-alive TLS connection that has the value. Reads follow each other, so a time is "+
		"too long by at most one read. The load is %d lines/s of tagged counters; --rate should be half of the lossless rate.", perSecond)
	s, err := m.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	load := Scenario{PerDatagram: 24, Seed: 23, series: newTaggedCounters(20, 5, 20, 5)}
	lines, err := m.startBackground(ctx, s, load, perSecond)
	if err != nil {
		return nil, err
	}
	m.step("pushes")
	udp, http, probeErr := probe(ctx, s, pushes)
	sent, err := lines.stop()
	if err := errors.Join(probeErr, err); err != nil {
		return nil, err
	}
	drops, err := lines.audit(ctx, int64(len(udp.visible)))
	if err != nil {
		return nil, err
	}
	figures = append(udp.visible.figures("udp", Aim{Most: 10}), http.visible.figures("http", Aim{Most: 10})...)
	reads := append(udp.reads, http.reads...)
	return append(append(figures, reads.figures("one_read", Aim{})...),
		Figure{Name: "lines_per_second", Unit: "lines/s", Value: sent}, Figure{Name: "dropped_datagrams",
			Value: float64(drops)}), nil
}

// probed are the times of one protocol.
type probed struct {
	visible durations
	reads   durations // of every read until the value was visible
}

// probe pushes over UDP and over HTTP in turn.
func probe(ctx context.Context, s *server, pushes int) (udp, http probed, err error) {
	api, err := openAPI(ctx, s)
	if err != nil {
		return udp, http, err
	}
	defer closing(api, &err)
	push, err := openSession(s.http)
	if err != nil {
		return udp, http, err
	}
	defer closing(push, &err)
	datagrams, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.udp))
	if err != nil {
		return udp, http, err
	}
	defer func() { err = errors.Join(err, datagrams.Close()) }()
	for i := 0; i < pushes && err == nil; i++ {
		value := 10*i + 1 // never ends in 0: Kubernetes would write 1000 as 1k
		err = udp.once(ctx, api, "probe.udp", value, func(value int) error {
			_, err := fmt.Fprintf(datagrams, "probe.udp:%d|g", value)
			return err
		})
		if err == nil {
			err = http.once(ctx, api, "probe.http", value, func(value int) error {
				_, err := push.ask200(bodyRequest("PUT", "/v1/external/probe.http", fmt.Sprint(value)))
				return err
			})
		}
		if err == nil {
			err = rest(ctx, betweenProbes)
		}
	}
	return udp, http, err
}

const (
	// betweenProbes spreads the probes over all phases of the server's periodic work.
	betweenProbes = 3 * time.Millisecond
	// visibleTimeout bounds the wait for a value: one in a dropped datagram never becomes visible.
	visibleTimeout = 10 * time.Second
)

// once pushes a value and reads until the value is visible.
func (p *probed) once(ctx context.Context, api *session, metric string, value int, push func(value int) error) error {
	request := getRequest("/apis/external.metrics.k8s.io/v1beta1/namespaces/default/"+metric, jsonMedia)
	want := fmt.Appendf(nil, `"value":"%d"`, value)
	begun := time.Now()
	if err := push(value); err != nil {
		return fmt.Errorf("push %s: %w", metric, err)
	}
	for {
		asked := time.Now()
		status, body, err := api.ask(request)
		if err != nil {
			return err
		}
		now := time.Now()
		p.reads = append(p.reads, now.Sub(asked))
		if status == 200 && bytes.Contains(body, want) {
			p.visible = append(p.visible, now.Sub(begun))
			return nil
		}
		if now.Sub(begun) > visibleTimeout {
			return fmt.Errorf("%s: %d is not visible after %s; the last answer was %d %.200s", metric, value,
				visibleTimeout, status, body)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
