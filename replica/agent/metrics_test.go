package agent

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// METRICS.md has a row for each metric, as the metric says it.
func TestMetricsAreDescribed(t *testing.T) {
	c := DefaultConfig()
	c.Insecure = true
	link, err := NewLink(c, "test", NewCollector(c), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(link)
	families, err := registry.Gather()
	if err != nil || len(families) != 9 {
		t.Fatal(len(families), err)
	}
	text, err := os.ReadFile("../../METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		row := "| `" + f.GetName() + "` | " + strings.ToLower(f.GetType().String()) + " | " + f.GetHelp() + " |\n"
		if !strings.Contains(string(text), row) {
			t.Errorf("METRICS.md has no row\n%s", row)
		}
	}
}
