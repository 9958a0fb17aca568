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

// How the API server is asked whether it is there, and after which silence its connections are closed: one of them may
// lead to a machine that is gone, which TCP tells late.
const (
	probeInterval         = time.Second
	probeTimeout          = 3 * time.Second
	closeConnectionsAfter = 10 * time.Second
)

// pulse asks the API server every second whether it is ready. A watch says nothing of that: one that nothing comes by
// looks the same whether nothing happens or the server is frozen. And who failed to reach the server waits longer each
// time, up to half a minute; when the server is back the pulse wakes them.
type healthProbe struct {
	check            func(context.Context) error
	closeConnections func()
	logger           *slog.Logger
	// every and patient are pulseEvery and pulsePatient, but for tests.
	interval, timeout time.Duration

	mu         sync.Mutex
	recovered  chan struct{} // closed, and another one made, when the server is ready again
	recoveries uint64        // how often that was
	since      time.Time     // of the first question without an answer; zero: it answers
	last       error
	unready    bool
}

func newHealthProbe(client *Client, logger *slog.Logger) *healthProbe {
	return &healthProbe{
		check: readyz(client.kubernetes.Discovery().RESTClient()), closeConnections: client.closeConnections, logger: logger,
		interval: probeInterval, timeout: probeTimeout, recovered: make(chan struct{}),
	}
}

// readyz asks for /readyz, which every account may read.
func readyz(client rest.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
	}
}

// run asks until the context ends.
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

// note takes down an answer to a question, or that there was none, and returns for how long there has been none.
func (p *healthProbe) record(asked time.Time, err error) (silent time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := apierrors.APIStatus(nil)
	answered := err == nil || errors.As(err, &status)
	if !answered {
		if p.since.IsZero() {
			p.since = asked
			p.logger.Warn("the API server gives no sign of life; what is known stays, and samples whose sender is not known are held",
				"err", cause(err))
		}
		p.last = err
		return time.Since(p.since)
	}
	was := p.unready || !p.since.IsZero()
	if !p.since.IsZero() {
		p.logger.Info("the API server gives signs of life again", "after", time.Since(p.since).Round(time.Millisecond))
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

// returned says how often the server was ready again, and is closed the next time. A nil pulse never is.
func (p *healthProbe) recovery() (times uint64, next <-chan struct{}) {
	if p == nil {
		return 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recoveries, p.recovered
}

// silence is since when the server has not answered, and why; the zero Time: it answers.
func (p *healthProbe) outage() (since time.Time, err error) {
	if p == nil {
		return time.Time{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since, p.last
}
