package adapter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apiserver/pkg/endpoints/request"
)

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
	v.logger.Warn("a metric is asked for in vain", "namespace", asked.namespace, "metric", metric.Truncate(asked.metric, metric.MaxQuoted),
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
