package adapter

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// wellFormed refuses a selector that cannot be read before the library sees it. The library refuses it too, but
// does not say which parameter it was in, and logs each such request as an error of ours, twice.
func rejectMalformed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkQuery(r); err != nil {
			responsewriters.ErrorNegotiated(target{}.status(err), cmserver.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// malformedSelector says what is wrong with the query, and with the selectors that the library reads on its own account.
// What of a query cannot be read would be dropped silently, and the answer, a sum to an autoscaler, be that of no selector
// at all. So would a selector behind a zero byte, which ends the library's parsing.
func checkQuery(r *http.Request) error {
	if r.URL.RawQuery == "" || !strings.HasPrefix(r.URL.Path, genericapiserver.APIGroupPrefix+"/") {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return metric.InvalidQueryf("query %.200q: %v", r.URL.RawQuery, err)
	}
	for parameter, values := range query {
		for _, value := range values {
			if strings.ContainsFunc(value, unicode.IsControl) || !utf8.ValidString(value) {
				return metric.InvalidQueryf("%.100s %.200q: no part of a query has control characters or bytes that are not UTF-8", parameter, value)
			}
		}
	}
	for _, selector := range query["labelSelector"] {
		if _, err := labels.Parse(selector); err != nil {
			return metric.InvalidQueryf("labelSelector %.200q: %.400v", selector, err)
		}
	}
	for _, selector := range query["fieldSelector"] {
		if _, err := fields.ParseSelector(selector); err != nil {
			return metric.InvalidQueryf("fieldSelector %.200q: %.400v", selector, err)
		}
	}
	return nil
}

// unasked is the request without its query.
func withoutQuery(r *http.Request) *http.Request {
	bare, address := *r, *r.URL
	address.RawQuery = ""
	bare.URL = &address
	return &bare
}

// undecidedPerSlot is how many requests there may be for each that is worked on: the others wait for the API server
// to say who they are and what they may. Where it is away they would pile up. undecidedPerSlotEach is how many of them may
// come from one address: everybody's wait for the same answers, and anybody can ask.
const (
	unauthorizedPerSlot     = 16
	unauthorizedPerSlotEach = 2
)

// handlerChain is the library's chain with ours around it and in it: no answer precedes the request's body,
// counting sees every answer, and the bound on requests in flight counts only those that were let in.
func (s *Server) handlerChain(cfg Config) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(api http.Handler, c *genericapiserver.Config) http.Handler {
		chain := genericapiserver.DefaultBuildHandlerChain(limitInFlight(newAnswerQueue(cfg).withTicket(withoutMetadataOnly(withoutOpenAPIHash(api))), cfg.MaxInFlight), c)
		if !s.access.anonymous() {
			chain = limitInFlightPerClient(limitInFlight(chain, unauthorizedPerSlot*cfg.MaxInFlight), unauthorizedPerSlotEach*cfg.MaxInFlight)
		}
		counted := s.metrics.instrument(rejectMalformed(s.requireReady(chain)), c.RequestInfoResolver)
		return drainBody(writeTimeout(counted, 2*cfg.RequestTimeout))
	}
}

const (
	drainBytes = 64 << 10
	drainTime  = time.Second
)

// drained reads the body of an HTTP/2 request, which nothing here wants, before the request is answered. An
// answer to a request whose body is still on its way resets the stream, and the library closes the connection of
// whoever is anonymous after each answer: between the two, clients such as curl lose the answer's body. For
// HTTP/1 net/http does the same by itself.
func drainBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && r.ContentLength != 0 {
			control := http.NewResponseController(w)
			if control.SetReadDeadline(time.Now().Add(drainTime)) == nil {
				_, _ = io.CopyN(io.Discard, r.Body, drainBytes)
				_ = control.SetReadDeadline(time.Time{})
			}
		}
		next.ServeHTTP(w, r)
	})
}

// impatient cuts off a client that does not read its answer: it would hold its place among the requests in flight, and
// the answer's memory, for as long as it likes.
func writeTimeout(next http.Handler, patience time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Both versions of HTTP can; a recorder in a test cannot, and has no need.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		next.ServeHTTP(w, r)
	})
}

// unredirected takes the query off requests for OpenAPI documents. All that it may hold is the hash of the document
// wanted; where that is an older one the library redirects to the newer, and a redirect of an aggregated API is
// followed by the kube-apiserver with its own identity (CVE-2022-3172). Without it the newer one is answered.
func withoutOpenAPIHash(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" && strings.HasPrefix(r.URL.Path, "/openapi/") {
			r = withoutQuery(r)
		}
		next.ServeHTTP(w, r)
	})
}

// withoutMetadataOnly takes metadata-only representations out of what a client accepts of external metrics: they
// have no object metadata, and the library would promise the representation and then fail with 500.
func withoutMetadataOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept := strings.Join(r.Header.Values("Accept"), ",")
		if !strings.Contains(accept, "PartialObjectMetadata") ||
			!strings.HasPrefix(r.URL.Path, "/apis/"+external_metrics.GroupName+"/") {
			next.ServeHTTP(w, r)
			return
		}
		var left []string
		for clause := range strings.SplitSeq(accept, ",") {
			if !strings.Contains(clause, "PartialObjectMetadata") {
				left = append(left, clause)
			}
		}
		if len(left) == 0 {
			err := negotiation.NewNotAcceptableError([]string{"application/json", "application/vnd.kubernetes.protobuf"})
			responsewriters.ErrorNegotiated(err, cmserver.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
			return
		}
		r.Header.Set("Accept", strings.Join(left, ","))
		next.ServeHTTP(w, r)
	})
}
