package adapter

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// maxUses bounds the metrics whose last question is remembered, about 200 bytes each: 3 MB.
const maxUses = 16384

// uses remembers when the API groups, and the metrics of autoscalers, were last asked for, and with
// which status this process answered. A request costs a lock and a write to a map, some tenths of a
// microsecond. Any goroutine may call its methods; the nil uses remembers nothing.
type uses struct {
	mu      sync.Mutex
	groups  map[string]*GroupUse
	metrics map[useKey]Use
}

// useKey is a metric as an autoscaler names it. An empty resource is an external metric.
type useKey struct{ namespace, resource, metric string }

// Use is the last question of a kind.
type Use struct {
	At   time.Time // zero: never, since the start
	Code int       // HTTP status of the answer
}

// GroupUse is the last use of an API group by way of the cluster's API server.
type GroupUse struct {
	Group string
	Last  Use
	// Succeeded is the last one that was answered without an error.
	Succeeded time.Time
}

func newUses() *uses { return &uses{groups: map[string]*GroupUse{}, metrics: map[useKey]Use{}} }

// serve adds the groups whose uses are remembered.
func (u *uses) serve(groups []group) {
	for _, g := range groups {
		u.groups[g.versions[0].Group] = &GroupUse{Group: g.versions[0].Group}
	}
}

// forwarded reports whether a request says that the cluster's API server forwards it. It isn't
// verified: a request that only pretends is answered with 401 or 403, and remembered with that.
func forwarded(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && r.Header.Get("X-Remote-User") != ""
}

// noteGroup records a request that the API server forwarded. Discovery documents count as well: it
// asks for them to see whether the group is available.
func (u *uses) noteGroup(path string, code int) {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/")
	u.mu.Lock()
	defer u.mu.Unlock()
	if g := u.groups[name]; g != nil {
		if g.Last = (Use{time.Now(), code}); code < http.StatusBadRequest {
			g.Succeeded = g.Last.At
		}
	}
}

// isController reports whether a user is the controller of HorizontalPodAutoscalers: with an account
// of its own, as kubeadm configures it, or with that of all controllers.
func isController(user string) bool {
	return user == inspect.ControllerUser || user == "system:kube-controller-manager"
}

// note records the outcome of a query by the autoscalers' controller. err is the API's.
func (u *uses) note(ctx context.Context, asked useKey, err error) {
	user, ok := request.UserFrom(ctx)
	if u == nil || !ok || !isController(user.GetName()) {
		return
	}
	use := Use{time.Now(), http.StatusOK}
	if err != nil {
		use.Code = codeOf(err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.metrics[asked]; !known {
		if len(u.metrics) >= maxUses {
			u.forgetLocked()
		}
		asked = useKey{strings.Clone(asked.namespace), strings.Clone(asked.resource), strings.Clone(asked.metric)}
	}
	u.metrics[asked] = use
}

// codeOf is the HTTP status of an error of the API.
func codeOf(err error) int {
	var failure apierrors.APIStatus
	if errors.As(err, &failure) {
		return int(failure.Status().Code)
	}
	return http.StatusInternalServerError
}

// forgetLocked forgets one of the metrics not asked for longest: the oldest of some chosen at random.
func (u *uses) forgetLocked() {
	const some = 16
	var oldest useKey
	seen := 0
	for key, use := range u.metrics { // Go iterates over maps in a random order
		if seen == 0 || use.At.Before(u.metrics[oldest].At) {
			oldest = key
		}
		if seen++; seen == some {
			break
		}
	}
	delete(u.metrics, oldest)
}

// GroupUses returns the last use of each served API group, sorted by name.
func (s *Server) GroupUses() []GroupUse {
	s.uses.mu.Lock()
	defer s.uses.mu.Unlock()
	all := make([]GroupUse, 0, len(s.uses.groups))
	for _, groupUse := range s.uses.groups {
		all = append(all, *groupUse)
	}
	slices.SortFunc(all, func(a, b GroupUse) int { return strings.Compare(a.Group, b.Group) })
	return all
}

// ControllerUse returns the last question of the autoscalers' controller for a metric, by the name
// in the spec and the group-resource of its objects; empty resource: an external metric.
func (s *Server) ControllerUse(namespace, resource, name string) Use {
	s.uses.mu.Lock()
	defer s.uses.mu.Unlock()
	return s.uses.metrics[useKey{namespace, resource, unescape(name)}]
}

// Times and bounds of warnings of queries that find nothing.
const (
	// vainAfter is how long a query finds nothing before the log says so. A person who asks once
	// reads the answer.
	vainAfter = 30 * time.Second
	// vainForgotten is after how long without being asked a query begins anew. An autoscaler asks
	// every 15 s.
	vainForgotten = 2 * time.Minute
	// vainRepeat is the shortest time between two warnings of a query.
	vainRepeat = time.Hour
	maxVain    = 1024 // queries that are remembered
)

// vainQueries warns of metrics that are asked for again and again and not found.
type vainQueries struct {
	logger *slog.Logger

	mu    sync.Mutex
	asked map[vainKey]*vainQuery
}

// vainKey is a query without its object and selectors. An empty resource is an external metric.
type vainKey struct{ namespace, resource, metric string }

type vainQuery struct {
	first, last, told time.Time
	times             int // since first
}

func newVainQueries(logger *slog.Logger) *vainQueries {
	return &vainQueries{logger: logger, asked: map[vainKey]*vainQuery{}}
}

// note records the outcome of a query. Only one that found nothing costs anything.
func (v *vainQueries) note(ctx context.Context, asked vainKey, err error) {
	if err == nil || v == nil || !errors.Is(err, metric.ErrNotFound) {
		return
	}
	now := time.Now()
	since, times, due := v.count(asked, now)
	if !due {
		return
	}
	by := ""
	if user, ok := request.UserFrom(ctx); ok {
		by = user.GetName()
	}
	if asked.resource == "" {
		asked.resource = "external"
	}
	v.logger.Warn("a metric is asked for in vain", "namespace", asked.namespace, "metric",
		metric.Truncate(asked.metric, metric.MaxQuoted),
		"of", asked.resource, "by", by, "since", since.UTC().Truncate(time.Second), "times", times, "why", err)
}

// count counts a query that found nothing, and reports whether a warning is due.
func (v *vainQueries) count(asked vainKey, now time.Time) (since time.Time, times int, due bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q := v.asked[asked]
	if q == nil {
		if len(v.asked) >= maxVain {
			v.forgetLocked(now)
		}
		if len(v.asked) >= maxVain || len(asked.metric) > metric.MaxQuoted {
			return since, 0, false
		}
		q = &vainQuery{}
		v.asked[asked] = q
	}
	if now.Sub(q.last) > vainForgotten {
		q.first, q.times = now, 0
	}
	q.last = now
	q.times++
	if now.Sub(q.first) < vainAfter || now.Sub(q.told) < vainRepeat {
		return since, 0, false
	}
	q.told = now
	return q.first, q.times, true
}

// forgetLocked forgets queries that are no longer asked.
func (v *vainQueries) forgetLocked(now time.Time) {
	for key, q := range v.asked {
		if now.Sub(q.last) > vainForgotten {
			delete(v.asked, key)
		}
	}
}
