package push

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

func TestSamples(t *testing.T) {
	h := start(t)
	now := time.Now().Unix()
	stamp := strconv.FormatInt(now, 10)
	body := `{"name":"c","type":"counter","value":9223372036854775807,"namespace":"shop","object":"pods/web-1","labels":{"code":"200","b":"\u00e4\ud83d\ude00"},"rate":0.1}
 {"type":"gauge","name":"g","value":-1.5,"object":"external","ttl":"1h","timestamp":` + stamp + `}

{"name":"g","type":"gauge","value":2,"object":"external","delta":true}` + "\r\n" + `{"name":"t","type":"histogram","value":1e-3,"namespace":"shop","object":"external"}
{"name":"t","type":"timer","value":2,"namespace":"shop"}
{"name":"s","type":"set","value":"a|b:\"c\"","namespace":"shop","object":"ingresses/main","labels":{}}
{"name":"s","type":"set","value":"other","namespace":"shop","object":"ingresses/main"}
{"name":"n","type":"gauge","value":1,"object":"namespaces/shop"}
{"name":"n","type":"gauge","value":1,"object":"nodes/a.example.com","ttl":"forever"}
{"name":"sender","type":"gauge","value":1,"labels":{"sluice_object":"pods/x"}}`
	status, answer := h.do("POST", "/v1/samples", body)
	if status != 200 || answer != "{\"applied\":10,\"refused\":0}\n" {
		t.Fatal(status, answer)
	}
	c := h.table.get(web1, "c", metric.Label{Key: "code", Value: "200"}, metric.Label{Key: "b", Value: "ä😀"})
	if c == nil || c.whole != 1<<63-1 || c.last.Rate != 0.1 || c.last.TTL != metric.Forever {
		t.Errorf("c: %+v", c)
	}
	if g := h.table.get(global, "g"); g.whole+int64(2*g.rest) != 0 || g.last.Op != metric.Shift {
		t.Errorf("g: %+v", g)
	}
	if s := h.table.get(ingress, "s"); len(s.members) != 2 || !s.members[`a|b:"c"`] {
		t.Errorf("s: %+v", s)
	}
	if h.table.get(external, "t").whole != 2 || h.table.get(shop, "n") == nil || h.table.get(nodeA, "n") == nil {
		t.Error("t or n is wrong")
	}
	h.do("POST", "/v1/samples", `{"type":"gauge","name":"g","value":-1.5,"object":"external","ttl":"1h","timestamp":`+stamp+`}`)
	if g := h.table.get(global, "g"); g.last.TTL != time.Hour || g.last.Date().Unix() != now || g.last.Op != metric.Assign {
		t.Errorf("g: %+v", g.last)
	}
}

func TestSamplesRefuse(t *testing.T) {
	h := start(t)
	h.table.refuse["limited"], h.table.refuse["ignored"] = metric.OverLimit, metric.Ignored
	h.table.refuse["toomuch"] = metric.BadValue
	for _, c := range []struct {
		line   string
		reason metric.Reason
		says   string
	}{
		{`x`, metric.Malformed, `"offset":0`},
		{`[]`, metric.Malformed, `"offset":0`},
		{` [{"name":"m","type":"gauge","value":1}]`, metric.Malformed, "one object a line, not an array"},
		{`{}`, metric.Malformed, "name"},
		{`{"name":"m"}`, metric.Malformed, "type"},
		{`{"name":"m","type":"gauge"}`, metric.Malformed, "value"},
		{`{"name":"m","type":"gauge","value":1`, metric.Malformed, "missing"},
		{`{"name":"m","type":"gauge","value":1}}`, metric.Malformed, `"offset":37`},
		{`{"name":"m","type":"gauge","value":1} {}`, metric.Malformed, "one line is one sample"},
		{`{"name":"m","type":"gauge","value":1,}`, metric.Malformed, "key"},
		{`{"name":"m","type":"gauge","value":1,"Value":2}`, metric.Malformed, `\"Value\"`},
		{`{"name":"m","type":"gauge","value":1,"value":2}`, metric.Malformed, `the field \"value\" appears twice`},
		{`{"name":"m","type":"gauge","value":1,"value":"2"}`, metric.Malformed, "twice"},
		{`{"name":"m","type":"gauge","value":1,"tags":{}}`, metric.Malformed, `\"tags\"`},
		{`{"name":"m","type":"gauge","value":null}`, metric.Malformed, `\"null\" is not a number`},
		{`{"name":"m","type":"gauge","value":12%q}`, metric.Malformed, `\"12%q\" is not a number`},
		{`{"name":"m","type":"gauge","value":+1}`, metric.Malformed, "number"},
		{`{"name":"m","type":"gauge","value":NaN}`, metric.BadValue, "NaN"},
		{`{"name":"m","type":"gauge","value":-Infinity}`, metric.BadValue, "infinite"},
		{`{"name":"m","type":"gauge","value":1e400}`, metric.BadValue, "beyond"},
		{`{"name":"m","type":"gauge","value":"1"}`, metric.Malformed, "without quotes"},
		{`{"name":"m","type":"set","value":1}`, metric.Malformed, "as a string"},
		{`{"name":"m","type":"set","value":""}`, metric.Malformed, "empty"},
		{`{"name":"m","type":"meter","value":1}`, metric.Malformed, "meter"},
		{`{"name":"m","type":"counter","value":1,"delta":true}`, metric.Malformed, "delta"},
		{`{"name":"m","type":"gauge","value":1,"delta":1}`, metric.Malformed, "true or false"},
		{`{"name":"m","type":"counter","value":1,"rate":0}`, metric.BadRate, "above 0"},
		{`{"name":"m","type":"counter","value":1,"rate":2}`, metric.BadRate, "at most 1"},
		{`{"name":"m","type":"counter","value":1,"rate":NaN}`, metric.BadRate, "NaN"},
		{`{"name":"m","type":"gauge","value":1,"rate":0.5}`, metric.BadRate, "gauge"},
		{`{"name":"m","type":"gauge","value":1,"ttl":"1"}`, metric.Malformed, "ttl"},
		{`{"name":"m","type":"gauge","value":1,"ttl":3600}`, metric.Malformed, "string"},
		{`{"name":"m","type":"gauge","value":1,"timestamp":-1}`, metric.Malformed, "Unix seconds"},
		{`{"name":"m","type":"gauge","value":1,"timestamp":1700000000000}`, metric.Malformed, "Unix seconds"},
		{`{"name":"m","type":"gauge","value":1,"labels":[]}`, metric.Malformed, "{"},
		{`{"name":"m","type":"gauge","value":1,"labels":{"a":1}}`, metric.Malformed, "string"},
		{`{"name":"m","type":"gauge","value":1,"labels":{"":"a"}}`, metric.Malformed, "no key"},
		{`{"name":"m","type":"gauge","value":1,"labels":{"a":"1","a":"1"}}`, metric.Malformed, "twice"},
		{`{"name":"m","type":"gauge","value":1,"labels":{"a":"` + many(1025) + `"}}`, metric.TooLong, "1025"},
		{`{"name":"m\ud800","type":"gauge","value":1}`, metric.Malformed, "surrogate"},
		{"{\"name\":\"m\xff\",\"type\":\"gauge\",\"value\":1}", metric.Malformed, "UTF-8"},
		{"{\"name\":\"m\x01\",\"type\":\"gauge\",\"value\":1}", metric.Malformed, "control"},
		{`{"name":"m\x","type":"gauge","value":1}`, metric.Malformed, "hexadecimal"},
		{`{"name":"","type":"gauge","value":1}`, metric.Malformed, "empty"},
		{`{"name":"m:rate","type":"gauge","value":1}`, metric.BadName, "stat"},
		{`{"name":"m","type":"gauge","value":1,"object":"pods/web-1"}`, metric.Identity, "namespace"},
		{`{"name":"m","type":"gauge","value":1,"object":"nodes/a","namespace":"shop"}`, metric.Identity, "no namespace"},
		{`{"name":"m","type":"gauge","value":1,"object":"widgets/a","namespace":"shop"}`, metric.Identity, "widgets"},
		{`{"name":"m","type":"gauge","value":1,"object":"pods","namespace":"shop"}`, metric.Malformed, "resource/name"},
		{`{"name":"m","type":"gauge","value":1,"object":"external/shop"}`, metric.Malformed, "beside"},
		{`{"name":"m","type":"gauge","value":1,"object":"pods/*","namespace":"shop"}`, metric.BadName, "*"},
		{`{"name":"m","type":"gauge","value":1,"object":"pods/a/b","namespace":"shop"}`, metric.BadName, "a/b"},
		{`{"name":"m","type":"gauge","value":1,"namespace":"a_b"}`, metric.BadName, "a_b"},
		{`{"name":"m","type":"gauge","value":1,"namespace":""}`, metric.BadName, "empty"},
		{`{"name":"limited","type":"gauge","value":1}`, metric.OverLimit, "the series limit is reached: --max-series 7"},
		{`{"name":"toomuch","type":"counter","value":100000000000000000}`, metric.BadValue, "one increment of a counter, divided by its rate, is at most 9.2e15"},
		{`{"name":"m","type":"gauge","value":1,"ttl":"` + many(70000) + `"}`, metric.TooLong, "65536"},
	} {
		before := h.rejected(c.reason)
		status, answer := h.do("POST", "/v1/samples", "\n"+c.line+"\n")
		want := 400
		if c.reason == metric.OverLimit {
			want = 429
		}
		if status != want || !strings.Contains(answer, `"reason":"`+c.reason.String()+`"`) ||
			!strings.Contains(answer, c.says) || !strings.Contains(answer, `"line":2`) || !strings.Contains(answer, `"refused":1`) {
			t.Errorf("%s: %d %s, want %d %v %q", clipName(c.line), status, answer, want, c.reason, c.says)
		}
		if h.rejected(c.reason) != before+1 {
			t.Errorf("%s: not once in the ledger", clipName(c.line))
		}
	}
	if len(h.table.series) != 0 {
		t.Errorf("applied: %v", h.table.series)
	}
	if status, answer := h.do("POST", "/v1/samples", `{"name":"ignored","type":"gauge","value":1}`); status != 200 || answer != "{\"applied\":0,\"refused\":0,\"ignored\":1}\n" {
		t.Error(status, answer)
	}
}

func TestEveryLineStandsForItself(t *testing.T) {
	h := start(t)
	h.table.refuse["limited"] = metric.OverLimit
	good, bad, limited := `{"name":"m","type":"counter","value":1}`, `{"name":"m","kind":"counter","value":1}`, `{"name":"limited","type":"counter","value":1}`
	status, answer := h.do("POST", "/v1/samples", good+"\n"+bad+"\n"+good+"\n"+limited)
	if status != 400 || h.table.get(global, "m").whole != 2 {
		t.Error(status, answer)
	}
	golden(t, "samples_partly.json", answer)
	status, answer = h.do("POST", "/v1/samples", good+"\n"+limited)
	if status != 429 {
		t.Error(status, answer)
	}
	_, answer = h.do("POST", "/v1/samples", strings.Repeat("x\n", 1000)+strings.Repeat(good+"\n", 1000))
	if strings.Count(answer, `"line":`) != 21 || !strings.Contains(answer, `"applied":1000,"refused":1000`) || !strings.Contains(answer, `"errors_left_out":980`) {
		t.Error(answer)
	}
	if status, answer := h.do("POST", "/v1/samples", "\n \n"); status != 200 || answer != "{\"applied\":0,\"refused\":0}\n" {
		t.Error(status, answer)
	}
}

func TestStatsd(t *testing.T) {
	h := start(t)
	status, answer := h.do("POST", "/v1/statsd", "hits:1|c|#code:200\nhits:2|c|#code:200\r\n\nlatency:1:2:3|ms|@0.5\nbad\n_e{1,1}:a|b\ng:+5|g\nr:1|c|@2\n")
	if status != 400 {
		t.Fatal(status, answer)
	}
	golden(t, "statsd_partly.json", answer)
	if h.server.Account().Received() != 9 || h.server.Account().Applied() != 6 || h.rejected(metric.Unsupported) != 1 {
		t.Errorf("received %d, applied %d", h.server.Account().Received(), h.server.Account().Applied())
	}
	if e := h.table.get(global, "hits", metric.Label{Key: "code", Value: "200"}); e == nil || e.whole != 3 || e.last.TTL != 0 {
		t.Errorf("hits: %+v", e)
	}
	if e := h.table.get(global, "g"); e.last.Op != metric.Shift {
		t.Errorf("g: %+v", e)
	}
	if status, answer := h.do("POST", "/v1/statsd?dialect=dogstatsd", "g:+5|g"); status != 200 || h.table.get(global, "g").last.Op != metric.Assign {
		t.Error(status, answer)
	}
	h.wants(400, "dogstatsd", "POST", "/v1/statsd?dialect=graphite", "g:+5|g")
}

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

// Rejections that are remembered for lists quote no secret, though the word before it is in another part of the request.
func TestSecretsOfRejectionsAreMasked(t *testing.T) {
	const secret = "hunter2secret"
	far := strings.Repeat("x", 900)
	for _, c := range [][3]string{
		{"POST", "/metrics/job/x", "db_password hunter2secret\n"},
		{"POST", "/metrics/job/x", "a 1\npassword: hunter2secret\n"},
		{"POST", "/metrics/job/x", "db_password_prod hunter2secret\n"},
		{"POST", "/metrics/job/x", "db_password_prod{a=\"b\"} hunter2secret\n"},
		{"POST", "/metrics/job/x", "db_password_prod 7 hunter2secret\n"},
		{"POST", "/metrics/job/x/db_password_prod@base64/hunter2secret!", "m 1\n"},
		{"POST", "/metrics/job/x?db_password_prod=hunter2secret%zz", "m 1\n"},
		{"PUT", "/v1/namespaces/shop/external/db_password_prod", "hunter2secret"},
		{"PUT", "/v1/external/m?label=db_password_prod=hunter2secret%ff", "1"},
		{"POST", "/v1/samples", `{"name":"db_password_prod","type":"gauge","value":"hunter2secret"}`},
		{"POST", "/v1/samples", `{"name":"db_password_prod","value":hunter2secret}`},
		{"POST", "/metrics/job/x", "api_token 7 hunter2secret\n"},
		{"POST", "/metrics/job/x", `m{password="` + far + `hunter2secret" 1`},
		{"POST", "/metrics/job/x/password@base64/hunter2secret!", "m 1\n"},
		{"POST", "/metrics/job/x/password/hunter2secret%ff", "m 1\n"},
		{"PUT", "/v1/namespaces/shop/external/api_token", "hunter2secret"},
		{"POST", "/v1/namespaces/shop/external/api_token?type=timer", "1\nhunter2secret"},
		{"PUT", "/v1/external/m?label=password=hunter2secret%ff", "1"},
		{"POST", "/v1/samples", `{"name":"m","type":"gauge","value":1,"labels":{"password":"hunter2secret` + "\xff\"}}"},
		{"POST", "/v1/samples", `{"name":"m","type":"gauge","value":1,"token":"x","token":hunter2secret}`},
		{"POST", "/v1/samples", `{"name":"m","type":"gauge","value":hunter2secret,"labels":{"token":"hunter2secret"}}`},
		{"POST", "/v1/statsd", far[:480] + ".password:hunter2secret|c"},
	} {
		rejections := record.NewRejections(nil)
		h := start(t, func(_ *Config, p *Parts) { p.Rejections = rejections })
		if status, _ := h.do(c[0], c[1], c[2]); status < 400 {
			t.Errorf("%s %.80q: %d", c[1], c[2], status)
		}
		all := rejections.All()
		if len(all) != 1 || all[0].Message == "" || strings.Contains(fmt.Sprint(all), secret) {
			t.Errorf("%s %.80q is remembered as %+v", c[1], c[2], all)
		}
	}
}

// A body may have millions of faults. All are counted, and those are worded which the answer or the list of rejected lines has.
func TestFaultsThatNobodySeesAreNotWorded(t *testing.T) {
	const n = 100_000
	series := append(label1(nil, "__name__", "g"), strings.Repeat("\x12\x00", n)...)
	for name, c := range map[string]struct {
		path, body string
		reason     metric.Reason
	}{
		"StatsD":           {"/v1/statsd", strings.Repeat("a\n", n), metric.Malformed},
		"samples":          {"/v1/samples", strings.Repeat("x\n", n), metric.Malformed},
		"values":           {"/v1/external/a?type=timer", strings.Repeat("x\n", n), metric.Malformed},
		"remote write":     {"/api/v1/write", string(s2.EncodeSnappy(nil, bytesField(nil, 1, series))), metric.TooLong},
		"of the table":     {"/v1/statsd", strings.Repeat("limited:1|c\n", n), metric.OverLimit},
		"of ignored names": {"/v1/statsd", strings.Repeat("ignored:1|c\n", n), metric.Ignored},
	} {
		t.Run(name, func(t *testing.T) {
			all := record.NewRejections(nil)
			h := start(t, func(_ *Config, p *Parts) { p.Rejections = all })
			h.table.refuse["limited"], h.table.refuse["ignored"] = metric.OverLimit, metric.Ignored
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, answer := h.do("POST", c.path, c.body)
			runtime.ReadMemStats(&after)
			if allocs := after.Mallocs - before.Mallocs; allocs > n/2 {
				t.Errorf("%d allocations for %d faults", allocs, n)
			}
			if got := h.rejected(c.reason); got != n {
				t.Errorf("%d are counted", got)
			}
			if c.reason == metric.Ignored {
				return
			}
			if !strings.Contains(answer, `"refused":100000,`) || !strings.Contains(answer, `"errors_left_out":99980}`) ||
				strings.Count(answer, `{"reason"`) != 21 { // the first one stands at the front, too
				t.Errorf("the answer is %s", answer)
			}
			for _, rejected := range all.All() {
				if rejected.Message == "" || rejected.Count < n/2 {
					t.Errorf("the list has %+v", rejected)
				}
			}
		})
	}
}
