package adapter

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// Ready reports whether the API answers queries, and what is missing otherwise. It agrees with
// /readyz, except while stopping: /readyz fails then, and queries are still answered.
func (s *Server) Ready() (bool, string) {
	for _, state := range s.readyChecks {
		if state == nil {
			continue
		}
		if ready, waiting := state(); !ready {
			return false, waiting
		}
	}
	return true, ""
}

// readyz is Ready as a health check.
func (s *Server) readyz() healthz.HealthChecker {
	return healthz.NamedCheck("answers", func(*http.Request) error {
		if ready, waiting := s.Ready(); !ready {
			return errors.New(waiting)
		}
		return nil
	})
}

// requireReady answers queries with 503 while an answer could be incomplete: an autoscaler would
// act on it, but tolerates an error. Discovery answers. requireReady precedes authentication, which
// may be what is not ready.
func (s *Server) requireReady(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isMetricQuery(r) {
			if ready, waiting := s.Ready(); !ready {
				responsewriters.ErrorNegotiated(notReady(waiting), cmserver.Codecs,
					schema.GroupVersion{Version: "v1"}, w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isMetricQuery distinguishes a query from discovery: /apis/{group}/{version} and more.
func isMetricQuery(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, genericapiserver.APIGroupPrefix+"/") &&
		strings.Count(strings.Trim(r.URL.Path, "/"), "/") > 2
}

func notReady(waiting string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusServiceUnavailable,
		Reason:  metav1.StatusReasonServiceUnavailable,
		Message: "not ready: " + waiting,
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds},
	}}
}

const (
	readyPoll = time.Second
	// firstLogAfter is the delay of the first message: most waits are shorter.
	firstLogAfter = 2 * time.Second
	logAgainAfter = 30 * time.Second
)

// logWhileNotReady polls a state until ctx ends, and logs what is missing: when that changes, and
// repeatedly. At the end of each wait it calls over.
func logWhileNotReady(ctx context.Context, logger *slog.Logger, state func() (bool, string), over func()) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	waiting, since, next, said := true, time.Now(), time.Now().Add(firstLogAfter), ""
	for {
		ready, missing := state()
		now := time.Now()
		switch {
		case ready && waiting:
			over()
			said = ""
		case !ready && !waiting:
			since, next = now, now
		case said != "" && said != missing:
			next = now
		}
		if waiting = !ready; waiting && !now.Before(next) {
			logger.Warn("the metrics APIs answer no queries", "for", now.Sub(since).Round(time.Second),
				"reason", missing)
			next, said = now.Add(logAgainAfter), missing
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
