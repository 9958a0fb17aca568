package replicas

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// exposed reads the totals of "shared" and "jobs" from a page of all series, as a Prometheus does.
func exposed(t *testing.T, s *server.Server) map[string]float64 {
	t.Helper()
	status, text := server.Ask(t, "GET", "http://"+s.HTTP+"/metrics/series", "")
	if status != 200 {
		t.Errorf("%d %s", status, text)
	}
	totals := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(name, "#") {
			totals[name] = v
		}
	}
	return totals
}

// A Prometheus scrapes the replicas' Service, and either replica answers. No total falls while one of
// them dies under load and comes back, again and again.
func TestTotalsOutliveAReplica(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	l := startLoad(t, m)
	highest, pages := map[string]float64{}, 0
	during := func(d time.Duration, when string, replicas ...*server.Server) {
		for i, end := 0, time.Now().Add(d); i < 4 || time.Now().Before(end); i++ {
			s := replicas[i%len(replicas)]
			totals := exposed(t, s)
			pages++
			for name, before := range highest {
				if now, has := totals[name]; has && now < before {
					t.Errorf("%s: %s falls from %v to %v", when, name, before, now)
				}
			}
			for name, now := range totals {
				highest[name] = max(highest[name], now)
			}
		}
	}
	for round := range server.ShortOrLong(4, 40) {
		died, other := m[round%2], m[1-round%2]
		during(time.Second, "both live", m...)
		died.Kill() // a moment ago, the other one showed what it had received
		during(time.Second, "one is dead", other)
		died.Start()
		during(time.Second, "it is back", died, other)
	}
	if l.end(); highest["shared_total"] == 0 {
		t.Errorf("%d pages: %v", pages, highest)
	}
}
