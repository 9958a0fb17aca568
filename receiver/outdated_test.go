package receiver

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// DogStatsD's T: a gauge of more than 5 minutes ago is refused, a counter counts.
func TestOutdatedGauge(t *testing.T) {
	f := serve(t, testConfig(udp(1)))
	conn := f.dial(0)
	now := time.Now()
	f.send(conn, fmt.Sprintf("depth:1|g|T%d\ndepth:2|g|T%d\nhits:4|c|T%d\n", now.Add(-6*time.Minute).Unix(), now.Add(-4*time.Minute).Unix(), now.Add(-time.Hour).Unix()))
	f.eventually("three", func() bool { return f.received() == 3 })
	if f.recorder.sum("depth") != 2 || f.recorder.sum("hits") != 4 || f.rejected(metric.Outdated) != 1 {
		t.Errorf("depth %d, hits %d, %d outdated", f.recorder.sum("depth"), f.recorder.sum("hits"), f.rejected(metric.Outdated))
	}
}
