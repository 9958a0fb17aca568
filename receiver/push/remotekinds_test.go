package push

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/sluice-metrics/sluice/metric"
)

// metadata1 is a request of 1.0 that says of a family that it is a counter.
func metadata1(family string) string {
	m := bytesField(numberField(nil, 1, 1), 2, []byte(family))
	return string(s2.EncodeSnappy(nil, bytesField(nil, 3, m)))
}

// A metric that became a gauge before its type was known goes on as one: refusing it would fail
// whole requests of Prometheus.
func TestRemoteWriteKindThatWasGuessed(t *testing.T) {
	g := gateway{start(t)}
	send := func(body string) { g.writes(204, "", body, "Content-Type", firstMessage, "Content-Encoding", "snappy") }
	send(remote1(remoteSeries{"requests", 0, 1}))
	send(metadata1("requests"))
	send(metadata1("jobs"))
	send(remote1(remoteSeries{"requests", 0, 2}, remoteSeries{"jobs", 0, 3}))
	if e := g.table.get(metric.Object{}, "requests", labelled); e.kind != metric.Gauge || e.whole != 2 {
		t.Errorf("%+v", e)
	}
	if e := g.table.get(metric.Object{}, "jobs", labelled); e.kind != metric.Counter || e.whole != 3 {
		t.Errorf("%+v", e)
	}
	// From another address, of which no types are remembered: as after a restart.
	other := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}).DialContext}}
	defer other.CloseIdleConnections()
	req, err := http.NewRequest("POST", g.url+"/api/v1/write", strings.NewReader(remote1(remoteSeries{"jobs", 0, 4})))
	must(t, err)
	req.Header.Set("Content-Type", firstMessage)
	res, err := other.Do(req)
	must(t, err)
	if _ = res.Body.Close(); res.StatusCode != http.StatusNoContent {
		t.Error(res.Status)
	}
	if e := g.table.get(metric.Object{}, "jobs", labelled); e.kind != metric.Counter || e.whole != 4 {
		t.Errorf("after a restart: %+v", e)
	}
}

// The parts of a histogram that come in two requests are one histogram, and none of them is
// refused.
func TestRemoteWriteHistogramInPieces(t *testing.T) {
	g := gateway{start(t)}
	at := time.Now().Add(-time.Minute)
	part := func(name, le string, v float64) []byte {
		one := bytesField(nil, 1, bytesField(bytesField(nil, 1, []byte("__name__")), 2, []byte(name)))
		if le != "" {
			one = bytesField(one, 1, bytesField(bytesField(nil, 1, []byte("le")), 2, []byte(le)))
		}
		return bytesField(nil, 1, bytesField(one, 2, remoteSample(v, at)))
	}
	for n := 1.0; n <= 3; n++ {
		for _, request := range [][]byte{part("x_bucket", "1", n), append(part("x_bucket", "+Inf", 2*n), part("x_sum", "", n)...)} {
			if got := g.writes(204, "", string(s2.EncodeSnappy(nil, request)), "Content-Type", firstMessage); got == "0 0 0" {
				t.Error(got)
			}
		}
		at = at.Add(15 * time.Second)
	}
	if e := g.table.get(metric.Object{}, "x"); e == nil || e.kind != metric.Timer || e.whole != 6 {
		t.Errorf("%+v", e)
	}
}
