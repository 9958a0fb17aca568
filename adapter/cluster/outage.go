package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// repeatAfter is how often a fault that stays is logged.
const logAgainAfter = 5 * time.Minute

// answers keeps whether the API server answers what is asked of it about one resource, and since when not.
type requestHealth struct {
	resource string // "pods"
	remedy   string // what lets us ask, for who finds it forbidden
	logger   *slog.Logger
	probe    *healthProbe // what the server says between two requests; nil: nobody asks

	mu     sync.Mutex
	since  time.Time // of the first failure of those that go on; zero: it answers
	last   error
	logged time.Time
	// failures are counted since the start.
	failures uint64
}

// failed notes that a request failed.
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
	if !changed && now.Sub(a.logged) < logAgainAfter {
		return
	}
	a.logged = now
	if apierrors.IsForbidden(err) {
		a.logger.Error("the cluster does not let us watch", "resource", a.resource, "want", a.remedy, "err", cause(err))
		return
	}
	a.logger.Warn("the API server does not answer; what is known stays", "resource", a.resource, "since", a.since, "err", cause(err))
}

// answered notes that a request got its answer.
func (a *requestHealth) recordSuccess() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.since.IsZero() {
		a.logger.Info("the API server answers again", "resource", a.resource, "after", time.Since(a.since).Round(time.Millisecond))
	}
	a.since, a.last, a.logged = time.Time{}, nil, time.Time{}
}

// forget has it that nothing was asked.
func (a *requestHealth) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since, a.last, a.logged = time.Time{}, nil, time.Time{}
}

// fault is why there is no answer; nil: there is.
func (a *requestHealth) lastError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// unanswered is for how long there was no answer; 0: there is.
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

// silence is that of one resource, or of several that have it for one cause.
type outage struct {
	resources []string
	since     time.Time // the earliest
	cause     string
}

// silent is what is wrong; not ok: nothing. A server that gives no sign of life answers nothing, also where nothing was
// asked meanwhile.
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

// silences says what is wrong with each resource, those with the same cause as one.
func outageTexts(all []*requestHealth) (texts []string) {
	var found []*outage
	for _, a := range all {
		one, ok := a.outage()
		if !ok {
			continue
		}
		i := slices.IndexFunc(found, func(s *outage) bool { return s.cause == one.cause })
		if i < 0 {
			found = append(found, &one)
			continue
		}
		found[i].resources = append(found[i].resources, a.resource)
		if one.since.Before(found[i].since) {
			found[i].since = one.since
		}
	}
	for _, s := range found {
		texts = append(texts, s.String())
	}
	return texts
}

// cause is an error's text without the URL that was asked, which for a watch is long, and other for each resource.
func cause(err error) string {
	text := err.Error()
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		text = strings.Replace(text, asked.Error(), asked.Err.Error(), 1)
	}
	return text
}
