package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Interval and timeout of the health probe, and the length of an outage after which connections are
// closed: a connection may lead to a machine that is gone, which TCP notices late.
const (
	probeInterval         = time.Second
	probeTimeout          = 3 * time.Second
	closeConnectionsAfter = 10 * time.Second
)

// healthProbe asks the API server every second whether it is ready. A watch without events looks
// the same whether nothing happens or the server is frozen. The probe also ends backoffs, which
// grow up to half a minute, once the server has recovered.
type healthProbe struct {
	check            func(context.Context) error
	closeConnections func()
	logger           *slog.Logger
	// interval and timeout are constants outside of tests.
	interval, timeout time.Duration

	mu         sync.Mutex
	recovered  chan struct{} // closed and replaced when the server is ready again
	recoveries uint64        // how often the server was ready again
	since      time.Time     // time of the first unanswered request; zero: no outage
	last       error
	unready    bool
}

func newHealthProbe(client *Client, logger *slog.Logger) *healthProbe {
	return &healthProbe{
		check: readyz(client.kubernetes.Discovery().RESTClient()), closeConnections: client.closeConnections, logger: logger,
		interval: probeInterval, timeout: probeTimeout, recovered: make(chan struct{}),
	}
}

// readyz requests /readyz, which every account may read.
func readyz(client rest.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
	}
}

// run probes until the context ends.
func (p *healthProbe) run(ctx context.Context) {
	hungUp := time.Time{}
	for ctx.Err() == nil {
		asked := time.Now()
		bounded, cancel := context.WithTimeout(ctx, p.timeout)
		err := p.check(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if silent := p.record(asked, err); silent < closeConnectionsAfter {
			hungUp = time.Time{}
		} else if time.Since(hungUp) >= closeConnectionsAfter {
			hungUp = time.Now()
			p.closeConnections()
		}
		sleep(ctx, p.interval, nil)
	}
}

// record records the result of a probe, and returns the length of the outage.
func (p *healthProbe) record(asked time.Time, err error) (silent time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := apierrors.APIStatus(nil)
	answered := err == nil || errors.As(err, &status)
	if !answered {
		if p.since.IsZero() {
			p.since = asked
			p.logger.Warn("the API server does not respond; the last known state stays in use, and samples of unknown senders are held",
				"err", cause(err))
		}
		p.last = err
		return time.Since(p.since)
	}
	was := p.unready || !p.since.IsZero()
	if !p.since.IsZero() {
		p.logger.Info("the API server responds again", "after", time.Since(p.since).Round(time.Millisecond))
	}
	p.since, p.last = time.Time{}, nil
	p.unready = err != nil && status.Status().Code >= http.StatusInternalServerError
	if was && !p.unready {
		p.recoveries++
		close(p.recovered)
		p.recovered = make(chan struct{})
	}
	return 0
}

// recovery returns how often the server has recovered, and a channel that is closed the next time.
// A nil probe never reports a recovery.
func (p *healthProbe) recovery() (times uint64, next <-chan struct{}) {
	if p == nil {
		return 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recoveries, p.recovered
}

// outage returns the start of the outage and its cause; the zero Time: none.
func (p *healthProbe) outage() (since time.Time, err error) {
	if p == nil {
		return time.Time{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since, p.last
}
