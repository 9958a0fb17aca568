// Package clients pushes to the real binary with widely used client libraries, and with the
// snippets of docs/clients.md. Every total must be exact, and every sample accounted for.
package clients

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Remove()
	os.Exit(code)
}

// want reads metrics until all have these values.
func want(t *testing.T, s *server.Server, values map[string]float64) {
	t.Helper()
	for metric, value := range values {
		server.Eventually(t, func() string {
			if got := s.Sum(metric); !(math.Abs(got-value) <= 1e-6*math.Abs(value)) {
				_, err := s.External(metric)
				return fmt.Sprintf("%s is %v, want %v (%v)", metric, got, value, err)
			}
			return ""
		})
	}
}
