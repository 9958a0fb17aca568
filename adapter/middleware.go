package adapter

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/adapter/route"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// unauthorizedPerSlot is how many requests may be in flight before authorization, as a multiple of
// MaxInFlight. They wait for the API server's decisions and would pile up during an outage.
// unauthorizedPerSlotEach is the share of one address: anyone can send such requests, and all wait
// for the same API server.
const (
	unauthorizedPerSlot     = 16
	unauthorizedPerSlotEach = 2
)

// handlerChain wraps the API. A request passes the handlers in this order:
//
//  1. the listener's limiter keeps a connection with a request from yielding to a new one; headerRooms bounds headers, and
//     answers 431 or 429 (headers.go); writeTimeout bounds the writing of the answer; drainBody reads the body;
//  2. instrument counts every answer, whichever handler gives it;
//  3. rejectLongPaths answers 414, rejectMalformed 400;
//  4. requireReady answers 503 while an answer could be incomplete (ready.go);
//  5. limitInFlightPerClient and limitInFlight bound the requests that wait for authorization, of which each address has
//     a share, and answer 429 (answerqueue.go); those of the front proxy pass, so that strangers keep no autoscaler out;
//  6. withOrigin keeps where a request comes from, by which the reviews of rights take turns (reviewpace.go); the library's
//     chain authenticates and authorizes, and bounds the time of a request;
//  7. limitInFlight bounds the authorized requests, of which each reader has a share (readershares.go), and answers 429;
//  8. withTicket lets large answers queue (answerqueue.go), of which each reader has a share, too;
//  9. with other providers, markForwarded tells the requests of another Sluice from the rest;
//  10. withRawQuery keeps the parameters of a request for raw usage, which the library drops;
//  11. withoutMetadataOnly and withoutOpenAPIHash correct requests that the library would answer with
//     an error or a redirect.
func (s *Server) handlerChain(cfg Config) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(api http.Handler, c *genericapiserver.Config) http.Handler { // from the inside out
		chain := withRawQuery(withoutMetadataOnly(withoutOpenAPIHash(api)))
		if s.routes {
			chain = markForwarded(chain)
		}
		shares := byReader
		if s.access.anonymous() {
			shares = unshared
		}
		chain = newAnswerQueue(cfg, shares).withTicket(chain)
		chain = limitInFlight(chain, shares(cfg.MaxInFlight), shares(maxWatches), func(r *http.Request) string { return shareOf(r.Context()) }, nil)
		chain = genericapiserver.DefaultBuildHandlerChain(chain, c)
		if !s.access.anonymous() {
			chain = s.access.withOrigin(chain)
			address := func(r *http.Request) string { return connlimit.Prefix(r.RemoteAddr).String() }
			chain = limitInFlight(chain, byReader(unauthorizedPerSlot*cfg.MaxInFlight), byReader(unauthorizedPerSlot*maxWatches), address, s.access.fromProxy)
			chain = limitInFlightPerClient(chain, unauthorizedPerSlotEach*cfg.MaxInFlight, s.access.fromProxy)
		}
		chain = s.requireReady(chain)
		counted := func(h http.Handler) http.Handler { return s.metrics.instrument(h, c.RequestInfoResolver, s.uses) }
		timed := func(h http.Handler) http.Handler { return writeTimeout(h, 2*cfg.RequestTimeout) }
		chain = timed(drainBody(counted(rejectLongPaths(rejectMalformed(chain)))))
		chain = newHeaderRooms(s.access.fromProxy, s.listener.Trust).bound(chain, timed(counted(http.HandlerFunc(refuseHeaders))))
		return s.listener.Requests(chain)
	}
}

const drainBytes = 64 << 10

// drainTimeout is raised by tests on real sockets, which may take any time.
var drainTimeout = time.Second

// drainBody reads the body of a request, which no handler needs, before the request is answered. Over HTTP/2, an
// answer before the end of the body resets the stream, and the library closes the connection of an anonymous client
// after each answer. With both, clients such as curl lose the answer. Over HTTP/1, net/http reads the rest before it
// answers, and when it closes the connection: for ever, if none comes. So the deadline of a body that has not ended
// stays, and the connection ends with the answer. A request with long headers waits for nothing.
func drainBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(w, r, drainTimeout)
		next.ServeHTTP(w, r)
	})
}

func drain(w http.ResponseWriter, r *http.Request, patience time.Duration) {
	if r.ContentLength == 0 {
		return
	}
	ended, control := false, http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(patience)) != nil {
		return // a recorder in a test
	}
	if patience > 0 {
		_, err := io.CopyN(io.Discard, r.Body, drainBytes)
		ended = errors.Is(err, io.EOF)
	}
	if ended || r.ProtoMajor == 2 {
		_ = control.SetReadDeadline(time.Time{})
		return
	}
	w.Header().Set("Connection", "close")
}

// writeTimeout cuts off a client that does not read its answer. Such a client would hold a place in
// flight and the answer's memory. A watch lasts once it has begun: liftWriteTimeout is for it.
func writeTimeout(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		// Fails for a recorder in a test alone.
		end := func() { _ = control.SetWriteDeadline(time.Now().Add(timeout)) }
		end()
		if isWatch(r) {
			defer end()
			lift := func() { _ = control.SetWriteDeadline(time.Time{}) }
			r = r.WithContext(context.WithValue(r.Context(), liftKey{}, lift))
		}
		next.ServeHTTP(w, r)
	})
}

type liftKey struct{}

// liftWriteTimeout is called by a watch that begins, so that strangers, who are refused before it, have a timeout.
func liftWriteTimeout(ctx context.Context) {
	if lift, ok := ctx.Value(liftKey{}).(func()); ok {
		lift()
	}
}

// rejectMalformed rejects malformed queries before the library does. The library would not name the
// parameter, and would log each such request as a server error, twice.
func rejectMalformed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkQuery(r); err != nil {
			responsewriters.ErrorNegotiated(target{}.status(err), cmserver.Codecs,
				schema.GroupVersion{Version: "v1"}, w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkQuery returns the fault of a query, or of a selector that the library parses. The library
// ignores a malformed part of a query, and anything after a zero byte. Without the check it would
// answer as if there were no selector, and the autoscaler would add everything up.
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
				return metric.InvalidQueryf("%.100s %.200q: must not contain control characters or invalid UTF-8",
					parameter, value)
			}
		}
	}
	for _, selector := range query["labelSelector"] {
		if _, err := labelselector.Parse("labelSelector", selector); err != nil {
			return err
		}
	}
	for _, selector := range query["fieldSelector"] {
		if _, err := fields.ParseSelector(selector); err != nil {
			return metric.InvalidQueryf("fieldSelector %.200q: %.400v", selector, err)
		}
		// The library would have rights decided for a metadata.name that selects nothing
		// (k8s.io/apiserver, requestinfo.go).
		if selector != "" && isMetricsPath(r.URL.Path) {
			return metric.InvalidQueryf("fieldSelector %.200q: metrics cannot be selected by fields; must be left out", selector)
		}
	}
	return nil
}

func isMetricsPath(path string) bool {
	return strings.HasPrefix(path, "/apis/external.metrics.") || strings.HasPrefix(path, "/apis/custom.metrics.")
}

// withoutMetadataOnly removes metadata-only representations from the Accept header of requests for
// external metrics. These have no object metadata, and the library would promise the representation
// and then fail with 500.
func withoutMetadataOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept := strings.Join(r.Header.Values("Accept"), ",")
		if !strings.Contains(accept, "PartialObjectMetadata") ||
			!strings.HasPrefix(r.URL.Path, "/apis/external.metrics.") {
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
			err := negotiation.NewNotAcceptableError([]string{"application/json",
				"application/vnd.kubernetes.protobuf"})
			responsewriters.ErrorNegotiated(err, cmserver.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
			return
		}
		r.Header.Set("Accept", strings.Join(left, ","))
		next.ServeHTTP(w, r)
	})
}

// withoutOpenAPIHash removes the query from requests for OpenAPI documents: it can only be the hash
// of the document. The library redirects from an old hash to the current one, and the
// kube-apiserver follows a redirect of an aggregated API with its own identity (CVE-2022-3172).
// Without the hash the library answers with the current document.
func withoutOpenAPIHash(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" && strings.HasPrefix(r.URL.Path, "/openapi/") {
			r = withoutQuery(r)
		}
		next.ServeHTTP(w, r)
	})
}

// withoutQuery is the request without its query.
func withoutQuery(r *http.Request) *http.Request {
	bare, address := *r, *r.URL
	address.RawQuery = ""
	bare.URL = &address
	return &bare
}

type forwardedKey struct{}

// markForwarded remembers that another Sluice forwards a request, and tells it that this one has providers itself:
// together they could forward a request for ever.
func markForwarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(route.ForwardedHeader) != "" {
			w.Header().Set(route.RoutesHeader, "true")
			r = r.WithContext(context.WithValue(r.Context(), forwardedKey{}, true))
		}
		next.ServeHTTP(w, r)
	})
}

// isForwarded reports whether another Sluice forwards the request.
func isForwarded(ctx context.Context) bool { return ctx.Value(forwardedKey{}) != nil }
