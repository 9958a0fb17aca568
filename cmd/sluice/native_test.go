package main

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	"github.com/prometheus/common/expfmt"
)

// A client that has too many buckets halves their number, or takes more values for zero. Nothing is
// counted twice by that, and nothing is lost.
func TestNativeHistogramsThatChangeTheirResolution(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts   prometheus.HistogramOpts
		values func(round int) []float64
	}{
		"halved": {
			prometheus.HistogramOpts{NativeHistogramBucketFactor: 1.01, NativeHistogramMaxBucketNumber: 12},
			func(round int) []float64 { // ever wider
				return []float64{math.Pow(1.03, float64(round)), math.Pow(1.3, float64(round)), math.Pow(1.3, float64(-round))}
			},
		},
		"of both signs": {
			prometheus.HistogramOpts{NativeHistogramBucketFactor: 1.01, NativeHistogramMaxBucketNumber: 12},
			func(round int) []float64 {
				return []float64{-math.Pow(1.1, float64(round)), math.Pow(1.2, float64(round)), 0}
			},
		},
		"more is zero": {
			prometheus.HistogramOpts{NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 10, NativeHistogramMaxZeroThreshold: 0.5},
			func(round int) []float64 { return []float64{math.Pow(0.7, float64(round)), 2} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := started(t, t.TempDir())
			c.opts.Name = "took"
			histogram := prometheus.NewHistogram(c.opts)
			client := push.New("http://"+p.push.Addr().String(), "a").Collector(histogram).Format(expfmt.NewFormat(expfmt.TypeProtoDelim))
			sent := 0
			for round := range 40 {
				for _, v := range c.values(round) {
					histogram.Observe(v)
					sent++
				}
				must(t, client.Push())
				if round == 0 {
					sent = 0 // the first push is where it begins
				}
				_, text := spoken(t, p, "GET", "/v1/external/took:count:1m", "")
				var answer struct{ Items []struct{ Value float64 } }
				if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Items) != 1 {
					t.Fatal(err, text)
				}
				if got := answer.Items[0].Value; got != float64(sent) {
					t.Fatalf("after push %d: %v, want %d", round, got, sent)
				}
			}
		})
	}
}
