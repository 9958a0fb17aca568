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

// UsageSource is where it is read what is used.
type UsageSource struct {
	Name string // for logs, such as "the kubelet"
	Read func(context.Context) (*metric.UsagePage, error)
	// Interval is the time between two readings.
	Interval time.Duration
}

// Usage reads what is used on the node, and keeps the windows. Run runs it; a Link tells a server.
type Usage struct {
	source  UsageSource
	log     *slog.Logger
	faults  ratelog.Limiter
	changed chan struct{} // there is another message

	mu      sync.Mutex // guards the fields below
	tracker *usage.Tracker
	number  uint64
	message *agentwire.Usage // the newest; nil: none yet, or no more
	seconds *agentwire.Seconds
	names   names
	// left are histories to hand over; nil: the agent measures.
	left []*agentwire.History

	pages, failures, faultyLines atomic.Uint64
	containers                   atomic.Int64
}

// NewUsage measures nothing yet.
func NewUsage(source UsageSource, log *slog.Logger) *Usage {
	u := &Usage{source: source, log: log, changed: make(chan struct{}, 1), tracker: usage.NewTracker(), names: newNames()}
	u.faults.Interval = logEvery
	return u
}

// Run asks until ctx ends.
func (u *Usage) Run(ctx context.Context) error {
	each := time.NewTicker(u.source.Interval)
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
	page, err := u.source.Read(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		u.failures.Add(1)
		if suppressed, ok := u.faults.Allow(); ok {
			u.log.Warn(u.source.Name+" does not say what is used", "error", err, "suppressed", suppressed)
		}
		return
	}
	u.pages.Add(1)
	if page.Faults > 0 {
		u.faultyLines.Add(uint64(page.Faults))
		if suppressed, ok := u.faults.Allow(); ok {
			u.log.Warn(u.source.Name+" says what cannot be", "first", page.FirstFault, "lines", page.Faults, "suppressed", suppressed)
		}
	}
	now := time.Now()
	u.mu.Lock()
	u.names.add(page, now)
	u.takeLocked(page, now)
	u.mu.Unlock()
	u.containers.Store(int64(len(page.Readings)))
	wake(u.changed)
}

// takeLocked adds a page to the windows, and makes the next message of it: of a page that ends no step, of its seconds
// alone. A message replaces that of the node's former agent, so there is none before the windows are complete.
func (u *Usage) takeLocked(page *metric.UsagePage, now time.Time) {
	records, only := u.tracker.Add(page, now)
	if u.left != nil || !u.tracker.IsComplete() {
		return
	}
	if !only || u.message == nil {
		u.number = max(u.number+1, uint64(now.UnixNano())) // also after those of the node's agent before
		u.message = agentwire.NewUsage(u.number, records)
	}
	if page.Step == 0 {
		return
	}
	seconds := &usage.Seconds{At: now, Values: make([]usage.Second, len(records))}
	for i := range records {
		seconds.Values[i] = records[i].Second
	}
	u.seconds = agentwire.NewSeconds(u.number, seconds)
	if !only {
		u.message.Seconds = u.seconds
	}
}

// newest is the message of what is used, or, if the server was told that, of the newest second. Both nil: nothing is
// known yet.
func (u *Usage) newest(told uint64) (*agentwire.Usage, *agentwire.Seconds) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.message != nil && u.message.Number == told {
		return nil, u.seconds
	}
	return u.message, nil
}

// points answers a question for points.
func (u *Usage) points(q *agentwire.PointsQuestion) *agentwire.Points {
	u.mu.Lock()
	defer u.mu.Unlock()
	all, err := u.tracker.Points(q.Query())
	return agentwire.NewPoints(q.Number, all, err != nil)
}

// renew drops what is known of a former pod of a name.
func (u *Usage) renew(r *agentwire.Renewed) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tracker.Renew(r.Namespace, r.Pod, time.Unix(r.CreatedSeconds, 0))
}

var (
	pagesDesc = prometheus.NewDesc("sluice_agent_kubelet_requests_total", "Requests to the kubelet, or readings of the cgroup folder, by result.", []string{"result"}, nil)
	linesDesc = prometheus.NewDesc("sluice_agent_kubelet_faults_total",
		"Lines of the kubelet, or files of cgroups, that say what cannot be, such as a negative number or a container a second time.", nil, nil)
	measuredDesc = prometheus.NewDesc("sluice_agent_measured", "Containers of which it was read last what they use, and the node.", nil, nil)
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
