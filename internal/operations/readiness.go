package operations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Check is one part that readiness depends on, or whose state /readyz shows.
type Check struct {
	Name string
	// State reports whether the part is ready, and a detail: what the part waits for or, if it is
	// ready, what an operator should know. State is called by several goroutines at once and must
	// not block.
	State func() (ready bool, detail string)
	// Impaired reports whether a part that is ready doesn't do all that it should. Nil: it does.
	Impaired func() bool
}

// answer is one check in the JSON of /readyz.
type answer struct {
	Name     string `json:"name"`
	Ready    bool   `json:"ready"`
	Impaired bool   `json:"impaired,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// readiness is the JSON of /readyz.
type readiness struct {
	Ready  bool     `json:"ready"`
	Checks []answer `json:"checks"`
}

func ask(checks []Check) readiness {
	all := readiness{Ready: true, Checks: make([]answer, 0, len(checks))}
	for _, c := range checks {
		ready, detail := c.State()
		all.Ready = all.Ready && ready
		impaired := ready && c.Impaired != nil && c.Impaired()
		all.Checks = append(all.Checks, answer{Name: c.Name, Ready: ready, Impaired: impaired, Detail: detail})
	}
	return all
}

// text prints one line per check, with the signs of Kubernetes' own health checks, and "!" for a part that
// is impaired.
func (r readiness) text() string {
	var b strings.Builder
	for _, a := range r.Checks {
		sign := "+"
		switch {
		case !a.Ready:
			sign = "-"
		case a.Impaired:
			sign = "!"
		}
		fmt.Fprintf(&b, "[%s]%s", sign, a.Name)
		if a.Detail != "" {
			b.WriteString(": " + a.Detail)
		}
		b.WriteByte('\n')
	}
	if r.Ready {
		return b.String() + "ready\n"
	}
	return b.String() + "not ready\n"
}

func serveReadiness(checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		all := ask(checks)
		status := http.StatusOK
		if !all.Ready {
			status = http.StatusServiceUnavailable
		}
		if strings.Contains(r.Header.Get("Accept"), "application/json") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(all) // an error means that the client is gone
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(all.text()))
	}
}
