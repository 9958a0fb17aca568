package push

import (
	"context"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/sluice-metrics/sluice/metric"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	firstMessage  = "application/x-protobuf"
	secondMessage = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
)

// remoteSeries is a series of one sample, now, by the second message's types.
type remoteSeries struct {
	name  string
	kind  uint64
	value float64
}

const counterType, gaugeType = 1, 2

func bytesField(dst []byte, number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}

func numberField(dst []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}

func remoteSample(v float64, at time.Time) []byte {
	dst := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(v))
	return numberField(dst, 2, uint64(at.UnixMilli()))
}

// remote2 is a request of 2.0, compressed; each series has a label a=b.
func remote2(all ...remoteSeries) string {
	request := bytesField(nil, 4, nil)
	for _, s := range []string{"__name__", "a", "b"} {
		request = bytesField(request, 4, []byte(s))
	}
	for _, s := range all {
		request = bytesField(request, 4, []byte(s.name))
	}
	for i, s := range all {
		one := bytesField(nil, 1, []byte{1, byte(4 + i), 2, 3})
		one = bytesField(one, 2, remoteSample(s.value, time.Now()))
		one = bytesField(one, 5, numberField(nil, 1, s.kind))
		request = bytesField(request, 5, one)
	}
	return string(s2.EncodeSnappy(nil, request))
}

// remote1 is a request of 1.0, compressed.
func remote1(all ...remoteSeries) string {
	var request []byte
	for _, s := range all {
		var one []byte
		for _, pair := range [][2]string{{"__name__", s.name}, {"a", "b"}} {
			one = bytesField(one, 1, bytesField(bytesField(nil, 1, []byte(pair[0])), 2, []byte(pair[1])))
		}
		request = bytesField(request, 1, bytesField(one, 2, remoteSample(s.value, time.Now())))
	}
	return string(s2.EncodeSnappy(nil, request))
}

// writes sends a request and returns what the headers say was written, as one string.
func (g gateway) writes(status int, says, body string, headers ...string) string {
	g.Helper()
	res := g.wants(status, says, "POST", "/api/v1/write", body, headers...)
	var all []string
	for _, what := range []string{"Samples", "Histograms", "Exemplars"} {
		all = append(all, res.Header.Get("X-Prometheus-Remote-Write-"+what+"-Written"))
	}
	return strings.Join(all, " ")
}

var labelled = metric.Label{Key: "a", Value: "b"}

func TestRemoteWrite(t *testing.T) {
	g, began := gateway{start(t)}, time.Now().Unix()
	headers := []string{"Content-Type", secondMessage, "Content-Encoding", "snappy"}
	if got := g.writes(204, "", remote2(remoteSeries{"jobs", counterType, 7}, remoteSeries{"depth", gaugeType, 2.5}), headers...); got != "2 0 0" {
		t.Errorf("written: %s", got)
	}
	if e := g.table.get(metric.Object{}, "jobs", labelled); e == nil || e.kind != metric.Counter || e.whole != 7 || e.last.Op != metric.Accumulate || e.last.TTL != 0 {
		t.Errorf("%+v", e)
	}
	if e := g.table.get(metric.Object{}, "depth", labelled); e == nil || e.kind != metric.Gauge || e.rest != 0.5 || e.last.Date().Unix() < began {
		t.Errorf("%+v", e)
	}
	g.writes(204, "", remote2(remoteSeries{"depth", gaugeType, math.NaN()}), headers...)
	if g.served("depth", "a", "b") {
		t.Error("a gauge that is NaN is served")
	}
	g.writes(204, "", remote1(remoteSeries{"jobs_total", 0, 9}, remoteSeries{"depth", 0, 1}), "Content-Type", firstMessage)
	if e := g.table.get(metric.Object{}, "jobs_total", labelled); e == nil || e.kind != metric.Counter || e.whole != 9 || !g.served("depth", "a", "b") {
		t.Errorf("%+v", e)
	}
	if got := g.writes(204, "", "", "Content-Type", secondMessage); got != "0 0 0" {
		t.Errorf("a request of nothing: %s", got)
	}
}

// Content negotiation: what the specifications ask for, and what they do not forbid.
func TestRemoteWriteNegotiation(t *testing.T) {
	g := gateway{start(t)}
	block := remote1(remoteSeries{"x", 0, 1})
	decoded, err := s2.Decode(nil, []byte(block))
	must(t, err)
	plain := string(decoded)
	for name, c := range map[string]struct {
		status      int
		body        string
		contentType string
		encoding    string
	}{
		"1.0":                         {204, block, "application/x-protobuf", "snappy"},
		"1.0 by its name":             {204, block, "application/x-protobuf;proto=prometheus.WriteRequest", "snappy"},
		"with a space, and in quotes": {204, block, `Application/X-Protobuf; proto="prometheus.WriteRequest"`, "Snappy"},
		"another parameter":           {204, block, "application/x-protobuf; charset=utf-8", "snappy"},
		"zstd":                        {204, compressed(t, "zstd", plain), firstMessage, "zstd"},
		"gzip":                        {204, compressed(t, "gzip", plain), firstMessage, "gzip"},
		"not compressed":              {204, plain, firstMessage, "identity"},
		"no coding":                   {204, block, firstMessage, ""}, // npm's prometheus-remote-write
		"neither coding nor type":     {204, block, "", ""},
		"no coding, not compressed":   {400, plain, firstMessage, ""},
		"a type before a bad body":    {415, "rubbish", "application/json", "snappy"},
		"a type before a bad coding":  {415, block, "application/json", "br"},
		"snappy's framing":            {204, compressed(t, "snappy", plain), firstMessage, "snappy"},
		"another message":             {415, block, "application/x-protobuf;proto=io.prometheus.write.v3.Request", "snappy"},
		"another type":                {415, block, "application/json", "snappy"},
		"no type":                     {204, block, "", "snappy"},
		"an unknown coding":           {415, block, firstMessage, "br"},
		"no block":                    {400, "rubbish", firstMessage, "snappy"},
		"no protobuf":                 {400, "rubbish", firstMessage, ""},
		"a block that says too much":  {413, "\xff\xff\xff\xff\x0f", firstMessage, "snappy"},
	} {
		headers := []string{"Content-Type", c.contentType}
		if c.encoding != "" {
			headers = append(headers, "Content-Encoding", c.encoding)
		}
		res, text := g.ask("POST", "/api/v1/write", c.body, headers...)
		if res.StatusCode != c.status || (text == "") != (c.status == 204) || c.status == 204 && res.Header.Get("X-Prometheus-Remote-Write-Samples-Written") != "1" {
			t.Errorf("%s: %d %v %s, want %d", name, res.StatusCode, res.Header, text, c.status)
		}
	}
	if res := g.wants(405, "POST", "GET", "/api/v1/write", ""); res.Header.Get("Allow") != "POST" {
		t.Error(res.Header)
	}
}

// Valid samples stay applied. The answer has the first fault and the number of faults, and asks for
// no retry that cannot succeed.
func TestRemoteWritePartial(t *testing.T) {
	g := gateway{start(t)}
	g.table.refuse["limit"], g.table.refuse["no"], g.table.refuse["ignored"] = metric.OverLimit, metric.Identity, metric.Ignored
	headers := []string{"Content-Type", secondMessage, "Content-Encoding", "snappy"}
	body := remote2(remoteSeries{"a", gaugeType, 1}, remoteSeries{"no", gaugeType, 1}, remoteSeries{"x:5m", gaugeType, 1}, remoteSeries{"ignored", gaugeType, 1}, remoteSeries{"b", gaugeType, 1})
	if got := g.writes(400, "2 of 5 samples were rejected, 2 stay applied; the first: this sender must not push to \\\"no\\\"", body, headers...); got != "3 0 0" {
		t.Errorf("written: %s", got)
	}
	if !g.served("a", "a", "b") || !g.served("b", "a", "b") {
		t.Error("what was good is not served")
	}
	g.writes(400, "the series limit is reached", remote2(remoteSeries{"limit", gaugeType, 1}), headers...)
	g.writes(400, "series 1, at byte 22: the series has no __name__", remote2(remoteSeries{"", gaugeType, 1}), headers...)
	if got := g.rejected(metric.Identity) + g.rejected(metric.BadName) + g.rejected(metric.Ignored) + g.rejected(metric.OverLimit) + g.rejected(metric.Malformed); got != 5 {
		t.Errorf("%d were refused, want 5", got)
	}
}

// Pending samples count as written. If no more can be held, the client is asked to retry, and its
// totals count once.
func TestRemoteWritePending(t *testing.T) {
	headers := []string{"Content-Type", secondMessage, "Content-Encoding", "snappy"}
	body := remote2(remoteSeries{"soon", counterType, 1}, remoteSeries{"a", counterType, 1})
	for senders, want := range map[int]struct {
		status  int
		says    string
		written string
	}{1: {204, "", "2 0 0"}, 0: {503, "no more can be held", "1 0 0"}} {
		h, room := startTrusting(t, senders)
		h.table.refuse["soon"] = metric.Pending
		g := gateway{h}
		res := g.wants(want.status, want.says, "POST", "/api/v1/write", body, headers...)
		if got := res.Header.Get("X-Prometheus-Remote-Write-Samples-Written") + " 0 0"; got != want.written || (res.Header.Get("Retry-After") == "") != (want.status == 204) {
			t.Errorf("%d senders: %v", senders, res.Header)
		}
		if room == nil {
			continue
		}
		if n := h.server.Account().Pending(); n != 1 {
			t.Errorf("%d pending", n)
		}
		delete(h.table.refuse, "soon")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = room.Run(ctx) // tries once more
		if h.server.Account().Pending() != 0 || !g.served("soon", "a", "b") {
			t.Error("what was held is not served")
		}
	}
}

// A client sends a body again if some of its samples can't be decided yet, although others are
// forbidden for good.
func TestRemoteWriteAsksForSamplesOfUnknownSendersFirst(t *testing.T) {
	h, _ := startTrusting(t, 0)
	h.table.refuse["soon"], h.table.refuse["no"] = metric.Pending, metric.Identity
	headers := []string{"Content-Type", secondMessage, "Content-Encoding", "snappy"}
	g := gateway{h}
	g.writes(503, "no more can be held", remote2(remoteSeries{"soon", gaugeType, 1}, remoteSeries{"no", gaugeType, 1}), headers...)
	g.writes(403, "", remote2(remoteSeries{"no", gaugeType, 1}), headers...)
}

func TestRemoteWriteSync(t *testing.T) {
	g := gateway{start(t)}
	g.wants(204, "", "POST", "/api/v1/write?sync=true", remote1(remoteSeries{"x", 0, 1}), "Content-Type", firstMessage)
	if g.disk.calls.Load() != 1 {
		t.Error("nothing was synced")
	}
	g.disk.err = http.ErrAbortHandler
	g.wants(503, "not on disk", "POST", "/api/v1/write?sync=true", remote1(remoteSeries{"x", 0, 1}), "Content-Type", firstMessage)
}

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
