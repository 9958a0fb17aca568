package adapter

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/metrics/pkg/apis/external_metrics"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

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
