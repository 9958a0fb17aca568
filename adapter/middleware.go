package adapter

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
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
		return metric.CannotAskf("query %.200q: %v", r.URL.RawQuery, err)
	}
	for parameter, values := range query {
		for _, value := range values {
			if strings.ContainsFunc(value, unicode.IsControl) || !utf8.ValidString(value) {
				return metric.CannotAskf("%.100s %.200q: no part of a query has control characters or bytes that are not UTF-8", parameter, value)
			}
		}
	}
	for _, selector := range query["labelSelector"] {
		if _, err := labels.Parse(selector); err != nil {
			return metric.CannotAskf("labelSelector %.200q: %.400v", selector, err)
		}
	}
	for _, selector := range query["fieldSelector"] {
		if _, err := fields.ParseSelector(selector); err != nil {
			return metric.CannotAskf("fieldSelector %.200q: %.400v", selector, err)
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
