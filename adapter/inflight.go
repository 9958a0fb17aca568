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

	"github.com/sluice-metrics/sluice/internal/connlimit"
)

// retryAfterSeconds is the Retry-After of rejected requests.
const retryAfterSeconds = 1

// limitInFlight rejects requests to the API groups beyond the limit with 429. The custom metrics
// library disables API Priority and Fairness, so nothing else would limit them. Health and version
// are exempt: an overloaded server is not dead.
func limitInFlight(next http.Handler, limit int) http.Handler {
	slots := make(chan struct{}, limit)
	refusal := fmt.Sprintf("%d requests are in flight, which is the limit; retry later", limit)
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

// limitInFlightPerClient is limitInFlight per client address.
func limitInFlightPerClient(next http.Handler, limit int) http.Handler {
	slots := connlimit.NewSlots(0, limit)
	refusal := fmt.Sprintf("%d requests from this address are in flight, which is the limit per address; retry later",
		limit)
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

// onlyAPIGroups passes requests to the API groups to limited, and all others to next.
func onlyAPIGroups(next http.Handler, limited http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, genericapiserver.APIGroupPrefix+"/") {
			limited(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func rejectTooMany(w http.ResponseWriter, r *http.Request, why string) {
	err := apierrors.NewTooManyRequests(why, retryAfterSeconds)
	responsewriters.ErrorNegotiated(err, cmserver.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
}
