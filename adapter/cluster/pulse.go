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
	pulseEvery   = time.Second
	pulsePatient = 3 * time.Second
	hangUpAfter  = 10 * time.Second
)

// pulse asks the API server every second whether it is ready. A watch says nothing of that: one that nothing comes by
// looks the same whether nothing happens or the server is frozen. And who failed to reach the server waits longer each
// time, up to half a minute; when the server is back the pulse wakes them.
type pulse struct {
	ask    func(context.Context) error
	hangUp func()
	logger *slog.Logger
	// every and patient are pulseEvery and pulsePatient, but for tests.
	every, patient time.Duration

	mu      sync.Mutex
	back    chan struct{} // closed, and another one made, when the server is ready again
	returns uint64        // how often that was
	since   time.Time     // of the first question without an answer; zero: it answers
	last    error
	unready bool
}

func newPulse(client *Client, logger *slog.Logger) *pulse {
	return &pulse{
		ask: readyz(client.kubernetes.Discovery().RESTClient()), hangUp: client.hangUp, logger: logger,
		every: pulseEvery, patient: pulsePatient, back: make(chan struct{}),
	}
}

// readyz asks for /readyz, which every account may read.
func readyz(client rest.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
	}
}

// run asks until the context ends.
func (p *pulse) run(ctx context.Context) {
	hungUp := time.Time{}
	for ctx.Err() == nil {
		asked := time.Now()
		bounded, cancel := context.WithTimeout(ctx, p.patient)
		err := p.ask(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if silent := p.note(asked, err); silent < hangUpAfter {
			hungUp = time.Time{}
		} else if time.Since(hungUp) >= hangUpAfter {
			hungUp = time.Now()
			p.hangUp()
		}
		sleep(ctx, p.every, nil)
	}
}

// note takes down an answer to a question, or that there was none, and returns for how long there has been none.
func (p *pulse) note(asked time.Time, err error) (silent time.Duration) {
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
		p.returns++
		close(p.back)
		p.back = make(chan struct{})
	}
	return 0
}

// returned says how often the server was ready again, and is closed the next time. A nil pulse never is.
func (p *pulse) returned() (times uint64, next <-chan struct{}) {
	if p == nil {
		return 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.returns, p.back
}

// silence is since when the server has not answered, and why; the zero Time: it answers.
func (p *pulse) silence() (since time.Time, err error) {
	if p == nil {
		return time.Time{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since, p.last
}
