package server

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Metrics are the server's own metrics, keyed by name and labels as printed.
type Metrics map[string]float64

// Metrics scrapes /metrics.
func (s *Server) Metrics() Metrics {
	s.t.Helper()
	all, err := readMetrics("http://" + s.Ops + "/metrics")
	must(s.t, err)
	return all
}

func readMetrics(url string) (Metrics, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := Metrics{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := cutLast(lines.Text())
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			all[name] = v
		}
	}
	return all, lines.Err()
}

func cutLast(line string) (name, value string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// Of returns the sum of a metric's series for a receiver; an empty reason matches all.
func (m Metrics) Of(metric, receiver, reason string) float64 {
	sum := 0.0
	for name, v := range m {
		if strings.HasPrefix(name, metric+"{") && strings.Contains(name, `receiver="`+receiver+`"`) &&
			(reason == "" || strings.Contains(name, `reason="`+reason+`"`)) {
			sum += v
		}
	}
	return sum
}

// CheckLaw checks the accounting of a receiver: received = applied + Σ rejected.
func (m Metrics) CheckLaw(t *testing.T, receiver string) {
	t.Helper()
	received := m.Of("sluice_samples_received_total", receiver, "")
	applied := m.Of("sluice_samples_applied_total", receiver, "")
	rejected := m.Of("sluice_samples_rejected_total", receiver, "")
	if received != applied+rejected || received == 0 {
		t.Errorf("%s: received %v, applied %v, rejected %v: want received = applied + rejected, above 0", receiver, received, applied, rejected)
	}
}

// Patience ends what hangs. A slow machine may need minutes for what an idle one does at once, so no wait is shorter.
const Patience = 10 * time.Minute

// Eventually repeats a check until it returns "", and fails with the last result if it never does.
func Eventually(t *testing.T, check func() (complaint string)) {
	t.Helper()
	if complaint := repeat(check); complaint != "" {
		t.Error(complaint)
	}
}

// Within is Eventually, and ends the test where it fails.
func Within(t *testing.T, check func() (complaint string)) {
	t.Helper()
	if complaint := repeat(check); complaint != "" {
		t.Fatalf("after %s: %s", Patience, complaint)
	}
}

func repeat(check func() string) (complaint string) {
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if complaint = check(); complaint == "" {
			return ""
		}
	}
	return complaint
}
