package adapter

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"

	"github.com/sluice-metrics/sluice/connlimit"
)

// retryAfterSeconds is how long a client that found the server full is asked to wait.
const retryAfterSeconds = 1

// bounded lets at most limit requests to the API groups be worked on at once and answers the others at once
// with 429. The custom metrics library switches priority and fairness off, so nothing else would bound them.
// Health and version are outside: a full server is not a dead one.
func limitInFlight(next http.Handler, limit int) http.Handler {
	slots := make(chan struct{}, limit)
	refusal := fmt.Sprintf("%d requests are in flight, as many as are worked on at once", limit)
	return onlyAPIGroups(next, func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			rejectTooMany(w, r, refusal)
		}
	})
}

// boundedEach is bounded for the requests of each address alone.
func limitInFlightPerClient(next http.Handler, limit int) http.Handler {
	slots := connlimit.NewSlots(0, limit)
	refusal := fmt.Sprintf("%d requests from this address are in flight, as many as there may be of one", limit)
	return onlyAPIGroups(next, func(w http.ResponseWriter, r *http.Request) {
		from := connlimit.Prefix(r.RemoteAddr)
		if slots.Acquire(from) != nil {
			rejectTooMany(w, r, refusal)
			return
		}
		defer slots.Release(from)
		next.ServeHTTP(w, r)
	})
}

// onlyGroups passes requests to the API groups to bound and all others on.
func onlyAPIGroups(next http.Handler, bound http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, genericapiserver.APIGroupPrefix+"/") {
			bound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func rejectTooMany(w http.ResponseWriter, r *http.Request, why string) {
	err := apierrors.NewTooManyRequests(why, retryAfterSeconds)
	responsewriters.ErrorNegotiated(err, cmserver.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
}
