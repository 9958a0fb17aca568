package push

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/identity"
	"github.com/sluice-metrics/sluice/receiver/pending"
)

// empty is a cluster view that is complete, and has no pod.
type empty struct{}

func (empty) PodNamed(string, string) *metric.Pod                { return nil }
func (empty) PodWithUID(string) *metric.Pod                      { return nil }
func (empty) PodWithContainer(string) *metric.Pod                { return nil }
func (empty) Object(string, string, string) (string, bool, bool) { return "", false, true }
func (empty) Namespace(string) (uid string, created time.Time, known bool) {
	return "", time.Time{}, false
}
func (empty) Synced() (bool, string)                            { return true, "" }
func (empty) Outage() (since time.Time, why string, blind bool) { return time.Time{}, "", false }

// Sender knows every address.
func (empty) Sender(a netip.Addr) *metric.Sender {
	return &metric.Sender{Key: 1, Address: a, Known: true}
}

// forwarding is the trust in a forwarder.
type forwarding struct{ *identity.Resolver }

func (forwarding) ExplainLimit(*metric.Sample) string { return "" }

// ofPods is a request of a series for each of some pods.
func ofPods(pods int, value float64, at time.Time) string {
	var request []byte
	for i := range pods {
		var one []byte
		for _, pair := range [][2]string{{"__name__", "requests_total"}, {"endpoint", "metrics"}, {"instance", fmt.Sprintf("10.1.2.%d:8080", i)},
			{"job", "web"}, {"namespace", "shop"}, {"pod", fmt.Sprintf("web-6d4cf56db6-%05d", i)}, {"service", "web"}} {
			one = bytesField(one, 1, bytesField(bytesField(nil, 1, []byte(pair[0])), 2, []byte(pair[1])))
		}
		request = bytesField(request, 1, bytesField(one, 2, remoteSample(value, at)))
	}
	return string(s2.EncodeSnappy(nil, request))
}

// Prometheus repeats a request until its answer is no 503, and sends nothing of its queue before.
func TestRemoteWriteOfEndedPodsIsNotRepeated(t *testing.T) {
	inVirtualTime(t, remoteWriteOfEndedPodsIsNotRepeated)
}

func remoteWriteOfEndedPodsIsNotRepeated(t *testing.T) {
	var room *pending.Buffer
	h := start(t, inMemory, func(_ *Config, p *Parts) {
		c := identity.DefaultConfig()
		c.TrustedForwarders = []string{"127.0.0.1"}
		trust := identity.New(c, cluster{}, empty{})
		table := aggregate.New(aggregate.DefaultConfig(), trust.Describe, p.Logger)
		p.NewApplier, p.Reader = func() Applier { return table.NewWriter() }, readerOf(table)
		room = pending.New(pending.DefaultConfig(), pending.Parts{
			NewApplier: func() pending.Applier { return table.NewWriter() }, Senders: empty{}, Logger: slog.New(slog.DiscardHandler),
		})
		p.Senders, p.Trust, p.Pending = empty{}, forwarding{trust}, room
	})
	h.table = nil
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- room.Run(ctx) }()
	defer func() { cancel(); must(t, <-ended) }()

	const most = 2000 // samples of a request
	marker := math.Float64frombits(0x7ff0000000000002)
	// sends is how often Prometheus sends a request, for at most two minutes.
	sends := func(body string) (status, times int, text string) {
		for times = range 24 {
			res, answer := gateway{h}.ask("POST", "/api/v1/write", body, "Content-Type", firstMessage)
			if status, text = res.StatusCode, answer; status != 503 {
				return status, times + 1, text
			}
			time.Sleep(5 * time.Second)
		}
		return status, times + 1, text
	}
	if status, times, text := sends(ofPods(most, marker, time.Now())); status != 204 || times != 1 {
		t.Errorf("Markers: %d after %d requests: %.200s", status, times, text)
	}
	if status, times, text := sends(ofPods(most, 1, time.Now().Add(-31*time.Second))); status != 400 || times != 1 {
		t.Errorf("Old values: %d after %d requests: %.200s", status, times, text)
	}
	if held := h.server.Account().Pending(); held != 0 {
		t.Errorf("%d are held", held)
	}
	if status, _, text := sends(ofPods(10, 1, time.Now())); status != 204 || h.server.Account().Pending() != 10 {
		t.Errorf("Fresh values: %d, %d are held: %.200s", status, h.server.Account().Pending(), text)
	}
	if status, times, text := sends(ofPods(most, 2, time.Now())); status != 400 || times != 7 {
		t.Errorf("More fresh values than can be held: %d after %d requests: %.200s", status, times, text)
	}
}
