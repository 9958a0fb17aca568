package clients

import (
	"fmt"
	"testing"
	"time"

	"github.com/DataDog/datadog-go/v5/statsd"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// transports are the transports of DataDog's client, with the receiver that accounts for each.
var transports = map[string]struct {
	receiver string
	address  func(*server.Server) string
}{
	"udp":      {"statsd_udp", func(s *server.Server) string { return s.UDP }},
	"unixgram": {"statsd_unixgram", func(s *server.Server) string { return "unixgram://" + s.Unixgram }},
	"unix":     {"statsd_unix", func(s *server.Server) string { return "unixstream://" + s.Unix }},
}

var aggregations = map[string]statsd.Option{
	"none":     statsd.WithoutClientSideAggregation(),
	"basic":    statsd.WithClientSideAggregation(),
	"extended": statsd.WithExtendedClientSideAggregation(),
}

func TestDatadogEveryCall(t *testing.T) {
	t.Parallel()
	for transport, way := range transports {
		for aggregation, option := range aggregations {
			t.Run(transport+"/"+aggregation, func(t *testing.T) {
				t.Parallel()
				s := server.New(t, "--dialect", "dogstatsd")
				s.Start()
				client, err := statsd.New(way.address(s), option, statsd.WithoutTelemetry(),
					statsd.WithNamespace("dd."), statsd.WithTags([]string{"env:test"}))
				must(t, err)
				everyCall(t, client)
				checkEveryCall(t, s, way.receiver)
			})
		}
	}
}

// everyCall makes every call of the client's interface.
func everyCall(t *testing.T, c statsd.ClientInterface) {
	t.Helper()
	tags := []string{"zone:a", "canary"}
	for i := range 50 {
		do(t,
			c.Count("count", int64(i), tags, 1), c.Incr("incr", tags, 1), c.Decr("decr", nil, 1),
			c.Gauge("gauge", float64(i), tags, 1),
			c.Histogram("histogram", float64(i), tags, 1), c.Distribution("distribution", float64(i), nil, 1),
			c.Timing("timing", time.Duration(i)*time.Millisecond, nil, 1), c.TimeInMilliseconds("millis", float64(i), tags, 1),
			c.Set("set", fmt.Sprint("user", i%7), tags, 1))
	}
	now := time.Now()
	do(t,
		c.GaugeWithTimestamp("gauge_at", 12.5, tags, 1, now), c.CountWithTimestamp("count_at", 9, tags, 1, now),
		c.SimpleEvent("deployed", "version 2\nwith a second line"), c.SimpleServiceCheck("db", statsd.Ok),
		c.Event(statsd.NewEvent("title", "text")), c.ServiceCheck(statsd.NewServiceCheck("cache", statsd.Critical)),
		c.Flush(), c.Close())
}

func checkEveryCall(t *testing.T, s *server.Server, receiver string) {
	t.Helper()
	const sum = 49 * 50 / 2
	want(t, s, map[string]float64{
		"dd.count:total":        sum,
		"dd.incr:total":         50,
		"dd.decr:total":         -50,
		"dd.gauge":              49,
		"dd.histogram:count":    50,
		"dd.histogram:sum":      sum,
		"dd.distribution:count": 50,
		"dd.distribution:max":   49,
		"dd.timing:count":       50,
		"dd.timing:sum":         sum,
		"dd.millis:count":       50,
		"dd.set":                7,
		"dd.gauge_at":           12.5,
		"dd.count_at:total":     9,
	})
	server.Eventually(t, func() string {
		m := s.Metrics()
		if got := m.Of("sluice_samples_rejected_total", receiver, "unsupported"); got != 4 {
			return fmt.Sprintf("%v samples are unsupported, want 2 events and 2 service checks", got)
		}
		return ""
	})
	m := s.Metrics()
	m.CheckLaw(t, receiver)
	if got := m.Of("sluice_samples_rejected_total", receiver, ""); got != 4 {
		t.Errorf("%v samples rejected in all, want the 4 unsupported ones only", got)
	}
	items, err := s.External("dd.count:total")
	if err != nil || len(items) != 1 || items[0].Labels["env"] != "test" || items[0].Labels["zone"] != "a" {
		t.Errorf("items %v (%v): want one with env=test and zone=a", items, err)
	}
}

func TestDatadogSampling(t *testing.T) {
	t.Parallel()
	s := server.New(t, "--dialect", "dogstatsd")
	s.Start()
	client, err := statsd.New(s.UDP, statsd.WithoutClientSideAggregation(), statsd.WithoutTelemetry())
	must(t, err)
	const n = 20_000
	for range n {
		do(t, client.Incr("sampled", nil, 0.5))
	}
	do(t, client.Close())
	// The client sends each sample with a probability of one half, so the total is exactly twice
	// the arrived samples.
	server.Eventually(t, func() string {
		received := s.Metrics().Of("sluice_samples_received_total", "statsd_udp", "")
		if got := s.Sum("sampled:total"); got != 2*received || received < n/3 {
			return fmt.Sprintf("total %v after %v samples at rate 0.5: want exactly twice, of about %d", got, received, n/2)
		}
		return ""
	})
	s.Metrics().CheckLaw(t, "statsd_udp")
}
