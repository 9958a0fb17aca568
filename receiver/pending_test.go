package receiver

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/pending"
)

// Without a pending buffer, a sample whose sender is unknown is rejected.
func TestWithoutPendingBuffer(t *testing.T) {
	f := bindParts(t, testConfig(udp(1)), func(p *Parts) {
		p.Explain = func(metric.Reason, *metric.Sample) string { return "nobody knows 127.0.0.1" }
	})
	f.recorder.refuse = map[string]metric.Reason{"a": metric.Pending}
	f.run()
	f.send(f.dial(0), "a:1|c\nb:1|c")
	f.eventually("both", func() bool { return f.received() == 2 })
	if f.rejected(metric.Identity) != 1 || f.recorder.sum("b") != 1 {
		t.Error("the pending sample is not rejected")
	}
	if !strings.Contains(f.log.String(), "nobody knows 127.0.0.1") {
		t.Errorf("not explained: %s", f.log)
	}
}

// The first datagrams of a pod arrive before its address is known. They are pending, and then
// applied as the pod's.
func TestPendingFromASocket(t *testing.T) {
	senders := &directory{}
	var buffer *pending.Buffer
	f := bindParts(t, testConfig(udp(1)), func(p *Parts) {
		c := pending.DefaultConfig()
		c.RetryInterval, c.MaxAge = time.Hour, time.Hour // Known alone triggers the retry
		newApplier := p.NewApplier
		buffer = pending.New(c, pending.Parts{NewApplier: func() pending.Applier { return newApplier() }, Senders: senders, Logger: p.Logger})
		p.Senders, p.Pending = senders, buffer
	})
	f.recorder.judge = func(s *metric.Sample) metric.Reason {
		if s.Sender.Pod == nil {
			return metric.Pending
		}
		return metric.Applied
	}
	f.run()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _ = buffer.Run(ctx); close(ended) }()
	f.send(f.dialFrom(0, "127.0.0.5"), "a:1|c\nb:2|c\nlat:3|ms|#k:v")
	f.eventually("pending", func() bool { return f.total((*ledger.Account).Pending) == 3 })
	senders.enter("127.0.0.5", "web-5", 5)
	buffer.Known(netip.MustParseAddr("127.0.0.5"))
	f.eventually("applied", func() bool { return f.total((*ledger.Account).Applied) == 3 })
	for name, want := range map[string]int64{"a": 1, "b": 2, "lat": 3} {
		if got := f.recorder.sum(name); got != want {
			t.Errorf("%s %d, want %d", name, got, want)
		}
		if from := f.recorder.sentBy(name); !strings.Contains(from, "web-5") {
			t.Errorf("%s is from %q", name, from)
		}
	}
	cancel()
	<-ended
}
