package remotewrite

import (
	"os"
	"strings"
	"testing"
)

// testdata/request1 and request2 are one scrape as the types of Prometheus 3.11 (prompb,
// prompb/io/prometheus/write/v2) marshal it, at moment: those types are no dependency of ours.
func TestWhatPrometheusMarshals(t *testing.T) {
	const want = `jobs_total[{namespace shop} {pod web-1}] counter accumulate 7 SINCE
depth[{queue ü}] gauge assign -2.5 SINCE
gone[] gauge vanish SINCE
sizes[] timer accumulate [-4 -2 -0.125 0.125 0.25 0.5 1 2 4] [0 6 0 1 0 2 3 0 2 0] n=14 sum=8.5 since 5s for {0 1}
floats[] timer accumulate [-0 1 4] [0.5 0 2 0] n=2.5 sum=1 for {0 1}
custom[] timer accumulate [0.5 1] [2 0 3] n=5 sum=7 for {0 1}
{0 1} 1 unsupported: series # ("levels"), at byte #: gauge histograms are unsupported, because they have no distribution over a window; push the observations
latency[] timer accumulate [0.1 1] [1 1 1] n=3 sum=2.5 SINCE for {5 0}
wait[] timer accumulate [] [] n=4 sum=9 [{0.5 0.25}] SINCE for {3 0}`
	for name, v := range map[string]Version{"request1": V1, "request2": V2} {
		body, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines, f := fed(t, body, v)
		for i := range lines {
			lines[i] = anywhere(lines[i])
		}
		expected := strings.ReplaceAll(want, "SINCE", "since 1m0s")
		if v == V1 { // it has no start
			expected = strings.ReplaceAll(strings.ReplaceAll(want, " SINCE", ""), " since 5s", "")
		}
		got := strings.Join(lines, "\n")
		if parts := strings.Split(expected, "\n"); strings.HasPrefix(lines[len(lines)-1], "latency") { // wholes come in any order
			parts[7], parts[8] = parts[8], parts[7]
			expected = strings.Join(parts, "\n")
		}
		if got != expected || f.Exemplars != 11 {
			t.Errorf("%s: %d exemplars\n%s\nwant\n%s", name, f.Exemplars, got, expected)
		}
	}
}
