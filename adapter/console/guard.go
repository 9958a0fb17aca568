package console

import (
	"net/http"

	"github.com/sluice-metrics/sluice/internal/config"
)

// policy lets a page load its own files and nothing else: no inline script or style runs, whatever a
// name or a label contains.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard sets the headers of every answer, and rejects requests that are not reads or that come by
// DNS rebinding.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the console is read-only", http.StatusMethodNotAllowed)
		case s.loopback && !config.IsThisMachine(r.Host):
			http.Error(w,
				"Host must be localhost or an IP address: a web page could reach this port by DNS rebinding", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
