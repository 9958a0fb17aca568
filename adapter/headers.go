package adapter

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/fair"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// maxHeader bounds the memory of a request's target and headers: those of a user with a thousand groups fit. The library
// takes a megabyte on the wire. freeHeader of it are in no budget: an autoscaler's, and those with a service account's token.
const maxHeader, freeHeader = 128 << 10, 6 << 10

// maxLargeHeaders bounds the headers of all requests in work that have more than freeHeader.
const maxLargeHeaders = 64 << 20

// headerRooms are the budgets of large headers. Those of the front proxy, which passes on its users' groups, have their own,
// so that strangers keep no user out.
type headerRooms struct {
	strangers, proxied *fair.Room[netip.Prefix, int]
	fromProxy          func(*http.Request) bool
	trust              func(remote string) // has the connection of a proxy receive what it likes: bodies of its users, too
}

func newHeaderRooms(fromProxy func(*http.Request) bool, trust func(string)) *headerRooms {
	return &headerRooms{fair.NewRoom[netip.Prefix](maxLargeHeaders), fair.NewRoom[netip.Prefix](maxLargeHeaders), fromProxy, trust}
}

// bound passes on requests whose headers are within the limits, and others to refused. Once a request is answered, its
// headers are dropped: over HTTP/2, the library keeps them until the answer is read.
func (h *headerRooms) bound(next, refused http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer connlimit.DropHeaders(r)
		if len(r.Trailer) > 0 { // no client announces trailers, and the library would keep them with the stream
			drain(w, r, 0) // else, over HTTP/1, the library waits for the rest of the body before it closes the connection
			panic(http.ErrAbortHandler)
		}
		n, from := connlimit.HeaderMemory(r), connlimit.Prefix(r.RemoteAddr)
		proxied := (n > freeHeader || r.ContentLength != 0) && h.fromProxy(r) // it checks a certificate, and few requests need it
		if proxied {
			h.trust(r.RemoteAddr)
		}
		if n > freeHeader {
			room := h.strangers
			if proxied {
				room = h.proxied
			}
			if n > maxHeader || !room.Take(from, n) {
				drain(w, r, 0)
				refused.ServeHTTP(w, r)
				return
			}
			defer room.Give(from, n)
		}
		next.ServeHTTP(w, r)
	})
}

// refuseHeaders says why headerRooms refuses a request.
func refuseHeaders(w http.ResponseWriter, r *http.Request) {
	if n := connlimit.HeaderMemory(r); n > maxHeader {
		rejectLong(w, r, http.StatusRequestHeaderFieldsTooLarge, "the target and the headers of the request take", n, maxHeader)
		return
	}
	rejectTooMany(w, r, "many requests with long headers are in flight; retry later")
}

// The bounds of a path. The library quotes it in answers to strangers, several times and escaped, and places in flight
// hold such answers of the metrics APIs alone: there, a name of metric.MaxNameLength fits in percent signs.
const maxPath, maxOtherPath = 4 << 10, 256

// rejectLongPaths rejects requests with long paths before they wait for anything.
func rejectLongPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := maxOtherPath
		if strings.HasPrefix(r.URL.Path, genericapiserver.APIGroupPrefix+"/") {
			most = maxPath
		}
		if n := len(r.URL.EscapedPath()); n > most {
			rejectLong(w, r, http.StatusRequestURITooLong, "the path of the request has", n, most)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func rejectLong(w http.ResponseWriter, r *http.Request, code int32, what string, n, most int) {
	err := target{}.failure(code, metav1.StatusReasonRequestEntityTooLarge,
		fmt.Errorf("%s %d bytes; must be at most %d", what, n, most))
	responsewriters.ErrorNegotiated(err, cmserver.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
}
