package push

import (
	"fmt"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/sluice-metrics/sluice/metric"
)

// A client's timestamp reaches the table, whichever protocol brought it; a gauge that is older than
// 5 minutes is rejected.
func TestTimestamps(t *testing.T) {
	now := time.Now()
	for name, send := range map[string]func(g gateway, at time.Time) int{
		"statsd": func(g gateway, at time.Time) int {
			status, _ := g.do("POST", "/v1/statsd?dialect=dogstatsd", fmt.Sprintf("depth:1|g|T%d\nhits:2|c|T%d", at.Unix(), at.Unix()))
			return status
		},
		"samples": func(g gateway, at time.Time) int {
			status, _ := g.do("POST", "/v1/samples", fmt.Sprintf(`{"name":"depth","type":"gauge","value":1,"timestamp":%d}`+"\n"+
				`{"name":"hits","type":"counter","value":2,"timestamp":%d}`+"\n"+`{"name":"took","type":"timer","value":2,"timestamp":%d}`, at.Unix(), at.Unix(), at.Unix()))
			return status
		},
		"otlp": func(g gateway, at time.Time) int {
			point := fmt.Sprintf(`"timeUnixNano":"%d"`, at.UnixNano())
			res, _ := g.ask("POST", "/v1/metrics", `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
				{"name":"depth","gauge":{"dataPoints":[{"asInt":"1",`+point+`}]}},
				{"name":"hits","sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[{"asInt":"2",`+point+`}]}},
				{"name":"took","histogram":{"aggregationTemporality":1,"dataPoints":[{"count":"1","sum":2,`+point+`}]}}]}]}]}`, "Content-Type", "application/json")
			return res.StatusCode
		},
		"remote write": func(g gateway, at time.Time) int {
			var request []byte
			for _, name := range []string{"depth", "hits_total"} {
				one := bytesField(nil, 1, bytesField(bytesField(nil, 1, []byte("__name__")), 2, []byte(name)))
				request = bytesField(request, 1, bytesField(one, 2, remoteSample(1, at)))
			}
			res, _ := g.ask("POST", "/api/v1/write", string(s2.EncodeSnappy(nil, request)), "Content-Type", firstMessage)
			return res.StatusCode
		},
	} {
		t.Run(name, func(t *testing.T) {
			protocol := name
			g := gateway{start(t)}
			recent, old := now.Add(-4*time.Minute), now.Add(-6*time.Minute)
			if status := send(g, recent); status >= 300 {
				t.Fatal(status)
			}
			stamps := func() map[string]int64 {
				all := map[string]int64{}
				g.table.mu.Lock()
				defer g.table.mu.Unlock()
				for k, e := range g.table.series {
					all[k.name] = e.last.Date().Unix()
				}
				return all
			}
			for name, at := range stamps() {
				if at != recent.Unix() {
					t.Errorf("%s is of %d, want %d", name, at, recent.Unix())
				}
			}
			for k, e := range g.table.series { // a histogram of four minutes ago counts then
				if protocol == "otlp" && k.name == "took" && !e.last.Late {
					t.Error("the histogram counts when it comes")
				}
			}
			send(g, old)
			for name, at := range stamps() {
				if want := map[bool]int64{true: recent.Unix(), false: old.Unix()}[name == "depth"]; at != want {
					t.Errorf("afterwards %s is of %d, want %d", name, at, want)
				}
			}
			if n := g.rejected(metric.Outdated); n != 1 {
				t.Errorf("%d rejected as outdated, want the gauge", n)
			}
		})
	}
}
