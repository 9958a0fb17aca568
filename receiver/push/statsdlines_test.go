package push

import (
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// npm's statsd-client sends its lines in the body of a PUT.
func TestStatsdLinesByPut(t *testing.T) {
	h := start(t)
	if status, answer := h.do("PUT", "/v1/statsd", "hits:1|c\nhits:2|c"); status != 200 || h.table.get(metric.Object{}, "hits").whole != 3 {
		t.Error(status, answer)
	}
}

// The server's dialect is that of HTTP too, unless the request names another.
func TestStatsdLinesDialect(t *testing.T) {
	h := start(t, func(c *Config, _ *Parts) { c.Dialect = statsd.DogStatsD })
	h.do("POST", "/v1/statsd", "depth:7|g")
	h.do("POST", "/v1/statsd", "depth:-3|g")
	if got := h.table.get(metric.Object{}, "depth").whole; got != -3 {
		t.Errorf("depth is %d in the server's dialect, dogstatsd; want -3", got)
	}
	h.do("POST", "/v1/statsd?dialect=statsd", "depth:-3|g")
	if got := h.table.get(metric.Object{}, "depth").whole; got != -6 {
		t.Errorf("depth is %d in the request's dialect, statsd; want -6", got)
	}
}
