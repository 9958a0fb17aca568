package agent

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/internal/collect"
	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// Usage asks the node's kubelet what is used, and keeps the windows. Run runs it; a Link tells a server.
type Usage struct {
	read     func(context.Context) (*metric.UsagePage, error)
	interval time.Duration
	log      *slog.Logger
	faults   ratelog.Limiter
	changed  chan struct{} // there is another message

	mu      sync.Mutex // guards the fields below
	tracker *usage.Tracker
	number  uint64
	message *agentwire.Usage // the newest; nil: none yet, or no more
	// left are histories to hand over; nil: the agent measures.
	left []*agentwire.History

	pages, failures, faultyLines atomic.Uint64
	containers                   atomic.Int64
}

// NewUsage measures nothing yet.
func NewUsage(read func(context.Context) (*metric.UsagePage, error), interval time.Duration, log *slog.Logger) *Usage {
	u := &Usage{read: read, interval: interval, log: log, changed: make(chan struct{}, 1), tracker: usage.NewTracker()}
	u.faults.Interval = logEvery
	return u
}

// Run asks until ctx ends.
func (u *Usage) Run(ctx context.Context) error {
	each := time.NewTicker(u.interval)
	defer each.Stop()
	for {
		u.ask(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-each.C:
		}
	}
}

func (u *Usage) ask(ctx context.Context) {
	if u.hasEnded() {
		return
	}
	page, err := u.read(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		u.failures.Add(1)
		if suppressed, ok := u.faults.Allow(); ok {
			u.log.Warn("the kubelet does not say what is used", "error", err, "suppressed", suppressed)
		}
		return
	}
	u.pages.Add(1)
	if page.Faults > 0 {
		u.faultyLines.Add(uint64(page.Faults))
		if suppressed, ok := u.faults.Allow(); ok {
			u.log.Warn("the kubelet says what cannot be", "first", page.Fault, "lines", page.Faults, "suppressed", suppressed)
		}
	}
	u.containers.Store(int64(len(page.Readings)))
	now := time.Now()
	u.mu.Lock()
	u.number = max(u.number+1, uint64(now.UnixNano())) // also after those of the node's agent before
	if records := u.tracker.Add(page, now); u.left == nil {
		u.message = agentwire.NewUsage(u.number, records)
	}
	u.mu.Unlock()
	wake(u.changed)
}

// newest is the message of what is used; nil: nothing is known yet.
func (u *Usage) newest() *agentwire.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.message
}

// renew drops what is known of a former pod of a name.
func (u *Usage) renew(r *agentwire.Renewed) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tracker.Renew(r.Namespace, r.Pod, time.Unix(r.CreatedSeconds, 0))
}

var (
	pagesDesc = prometheus.NewDesc("sluice_agent_kubelet_requests_total", "Requests to the kubelet, by result.", []string{"result"}, nil)
	linesDesc = prometheus.NewDesc("sluice_agent_kubelet_faults_total",
		"Lines of the kubelet that say what cannot be, such as a negative number or a container a second time.", nil, nil)
	measuredDesc = prometheus.NewDesc("sluice_agent_measured", "Containers of which the kubelet said last what they use, and the node.", nil, nil)
)

// Describe implements prometheus.Collector.
func (u *Usage) Describe(ch chan<- *prometheus.Desc) {
	collect.Describe(ch, pagesDesc, linesDesc, measuredDesc)
}

// Collect implements prometheus.Collector.
func (u *Usage) Collect(ch chan<- prometheus.Metric) {
	collect.Counter(ch, pagesDesc, u.pages.Load(), "ok")
	collect.Counter(ch, pagesDesc, u.failures.Load(), "failed")
	collect.Counter(ch, linesDesc, u.faultyLines.Load())
	collect.Gauge(ch, measuredDesc, u.containers.Load())
}
