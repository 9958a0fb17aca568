package clients

import (
	"testing"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"

	"github.com/sluice-metrics/sluice/e2e/server"
)

func connect(t *testing.T, cfg statsd.ClientConfig) *statsd.Client {
	t.Helper()
	client, err := statsd.NewClientWithConfig(&cfg)
	must(t, err)
	return client.(*statsd.Client) // more calls than the interface
}

// do fails the test at the first error of a client's calls.
func do(t *testing.T, calls ...error) {
	t.Helper()
	for i, err := range calls {
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

func TestCactusEveryCall(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	c := connect(t, statsd.ClientConfig{Address: s.UDP, Prefix: "app"})
	for i := range int64(100) {
		do(t, c.Inc("requests", i, 1), c.Timing("latency", i+1, 1), c.SetInt("users", i%10, 1))
	}
	do(t,
		c.Dec("requests", 50, 1),
		c.Gauge("depth", 40, 1), c.GaugeDelta("depth", 5, 1), c.GaugeDelta("depth", -3, 1),
		c.GaugeFloat("load", 1.5, 1), c.GaugeFloatDelta("load", 0.25, 1),
		c.TimingDuration("latency", 101*time.Millisecond, 1),
		c.Set("users", "bob", 1), c.SetFloat("users", 2.5, 1),
		c.Raw("raw", "7|c", 1),
		c.Close())

	want(t, s, map[string]float64{
		"app.requests:total": 99*100/2 - 50,
		"app.depth":          42,
		"app.load":           1.75,
		"app.latency:count":  101,
		"app.latency:max":    101,
		"app.latency:min":    1,
		"app.latency:sum":    101 * 102 / 2,
		"app.users":          12,
		"app.raw:total":      7,
	})
	m := s.Metrics()
	m.CheckLaw(t, "statsd_udp")
	if got := m.Of("sluice_samples_applied_total", "statsd_udp", ""); got != 310 {
		t.Errorf("applied %v samples, want 310", got)
	}
}

func TestCactusSampling(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	c := connect(t, statsd.ClientConfig{Address: s.UDP})
	c.SetSamplerFunc(func(float32) bool { return true }) // every sample is sent, with its rate
	for range 100 {
		do(t, c.Inc("sampled", 3, 0.25), c.Timing("sampled_time", 20, 0.1))
	}
	do(t, c.Close())
	want(t, s, map[string]float64{
		"sampled:total":      100 * 3 * 4,
		"sampled_time:count": 100 * 10,
		"sampled_time:mean":  20,
	})
	s.Metrics().CheckLaw(t, "statsd_udp")
}

func TestCactusTags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format  statsd.TagFormat
		dialect string
	}{
		"octothorpe": {statsd.SuffixOctothorpe, "statsd"},
		"comma":      {statsd.InfixComma, "influx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.New(t, "--dialect", c.dialect)
			s.Start()
			client := connect(t, statsd.ClientConfig{Address: s.UDP, TagFormat: c.format})
			a, b := statsd.Tag{"zone", "a"}, statsd.Tag{"code", "200"}
			for range 10 { // the order of tags does not matter
				do(t, client.Inc("tagged", 1, 1, a, b), client.Inc("tagged", 1, 1, b, a), client.Inc("tagged", 5, 1, a))
			}
			do(t, client.Close())
			want(t, s, map[string]float64{"tagged:total": 70})
			items, err := s.External("tagged:total")
			must(t, err)
			if len(items) != 2 || items[0].Value != 20 || items[0].Labels["code"] != "200" || items[1].Value != 50 || items[1].Labels["zone"] != "a" {
				t.Errorf("items %v: want 20 of code=200,zone=a and 50 of zone=a", items)
			}
			s.Metrics().CheckLaw(t, "statsd_udp")
		})
	}
}

func TestCactusBuffered(t *testing.T) {
	t.Parallel()
	s := server.New(t)
	s.Start()
	c := connect(t, statsd.ClientConfig{Address: s.UDP, UseBuffered: true, FlushInterval: 50 * time.Millisecond, FlushBytes: 1400})
	const n = 20_000
	for i := range n {
		do(t, c.Inc("buffered", 1, 1))
		if i%1000 == 999 {
			time.Sleep(time.Millisecond) // a burst of 20,000 lines would only test the kernel's buffer
		}
	}
	do(t, c.Close())
	want(t, s, map[string]float64{"buffered:total": n})
	m := s.Metrics()
	m.CheckLaw(t, "statsd_udp")
	if got := m.Of("sluice_samples_received_total", "statsd_udp", ""); got != n {
		t.Errorf("received %v samples, want %d", got, n)
	}
	if got := m.Of("sluice_kernel_drops_total", "statsd_udp", ""); got != 0 {
		t.Errorf("the kernel dropped %v datagrams", got)
	}
}
