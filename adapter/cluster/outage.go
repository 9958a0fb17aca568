package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// logAgainAfter is the interval at which a lasting failure is logged.
const logAgainAfter = 5 * time.Minute

// requestHealth records whether the API server answers requests about one resource, and the start
// of an outage.
type requestHealth struct {
	resource string // "pods"
	remedy   string // what allows a forbidden request
	logger   *slog.Logger
	probe    *healthProbe // probes the server between requests; nil: no probe
	once     bool         // a lasting failure is logged once

	mu     sync.Mutex
	since  time.Time // first failure of the current outage; zero: none
	last   error
	logged time.Time
	// failures since the start of the process.
	failures uint64
}

// recordFailure records a failed request.
func (a *requestHealth) recordFailure(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.failures++
	if a.since.IsZero() {
		a.since = now
	}
	changed := a.last == nil || apierrors.ReasonForError(err) != apierrors.ReasonForError(a.last)
	a.last = err
	if !changed && (a.once || now.Sub(a.logged) < logAgainAfter) {
		return
	}
	a.logged = now
	if apierrors.IsForbidden(err) {
		a.logger.Error("watching a resource is forbidden", "resource", a.resource, "remedy", a.remedy, "err",
			cause(err))
		return
	}
	a.logger.Warn("the API server does not answer; the last known state stays in use", "resource", a.resource,
		"since", a.since, "err", cause(err))
}

// recordSuccess records an answered request.
func (a *requestHealth) recordSuccess() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.since.IsZero() {
		a.logger.Info("the API server answers again", "resource", a.resource, "after",
			time.Since(a.since).Round(time.Millisecond))
	}
	a.since, a.last, a.logged = time.Time{}, nil, time.Time{}
}

// reset forgets all requests.
func (a *requestHealth) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since, a.last, a.logged = time.Time{}, nil, time.Time{}
}

// lastError returns the cause of the outage; nil: none.
func (a *requestHealth) lastError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// failingFor returns the length of the outage; 0: none.
func (a *requestHealth) failingFor() time.Duration {
	s, silent := a.outage()
	if !silent {
		return 0
	}
	return time.Since(s.since)
}

func (a *requestHealth) failureCount() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failures
}

// outage describes the outage of one resource, or of several with the same cause.
type outage struct {
	resources []string
	since     time.Time // the earliest
	cause     string
}

// outage returns the current outage, if there is one. A server that does not respond to the health
// probe is an outage of every resource, even without a request meanwhile.
func (a *requestHealth) outage() (s outage, ok bool) {
	dead, why := a.probe.outage()
	a.mu.Lock()
	defer a.mu.Unlock()
	s = outage{resources: []string{a.resource}, since: a.since}
	switch {
	case !dead.IsZero():
		s.cause = cause(why)
		if a.since.IsZero() || dead.Before(a.since) {
			s.since = dead
		}
	case !a.since.IsZero():
		s.cause = cause(a.last)
	default:
		return outage{}, false
	}
	return s, true
}

func (s outage) String() string {
	return fmt.Sprintf("no answer about %s since %s (%s): %s", strings.Join(s.resources, ", "),
		s.since.UTC().Format(time.RFC3339), time.Since(s.since).Round(time.Second), s.cause)
}

// outageTexts describes all outages, those with the same cause in one text.
func outageTexts(all []*requestHealth) (texts []string) {
	var found []*outage
	for _, a := range all {
		o, ok := a.outage()
		if !ok {
			continue
		}
		i := slices.IndexFunc(found, func(s *outage) bool { return s.cause == o.cause })
		if i < 0 {
			found = append(found, &o)
			continue
		}
		found[i].resources = append(found[i].resources, a.resource)
		if o.since.Before(found[i].since) {
			found[i].since = o.since
		}
	}
	for _, s := range found {
		texts = append(texts, s.String())
	}
	return texts
}

// cause returns an error's text without the URL, which is long and differs between resources.
func cause(err error) string {
	text := err.Error()
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		text = strings.Replace(text, asked.Error(), asked.Err.Error(), 1)
	}
	return text
}

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
