package operations

import (
	"net/http"

	"github.com/sluice-metrics/sluice/internal/connlimit"
)

// pagesAtOnce bounds the pages of metrics that are written at once, and pagesEach those to one address.
const pagesAtOnce, pagesEach = 8, 2

// limitPages has pages wait for a place. One whose reader is slow ends if others wait.
func limitPages(limiter *connlimit.Limiter, next http.Handler) http.HandlerFunc {
	pages := connlimit.NewPages(pagesAtOnce, pagesEach)
	return func(w http.ResponseWriter, r *http.Request) {
		page := pages.Begin(r.Context(), connlimit.Prefix(r.RemoteAddr).String(), func() { limiter.Reset(r.RemoteAddr) })
		if page == nil {
			http.Error(w, "pages of metrics are being written, as many as may be at once, in all or to this address; try again in a moment",
				http.StatusServiceUnavailable)
			return
		}
		defer page.End()
		next.ServeHTTP(&pageWriter{w, page}, r)
	}
}

type pageWriter struct {
	http.ResponseWriter
	page *connlimit.Page
}

// Write ends the request if the reader is gone: promhttp would log an error for each metric that is left.
func (w *pageWriter) Write(text []byte) (int, error) {
	n, err := w.page.Writer(w.ResponseWriter).Write(text)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return n, nil
}
