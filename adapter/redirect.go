package adapter

import (
	"net/http"
	"strings"
)

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
