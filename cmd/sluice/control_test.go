package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"
)

// A terminal obeys control characters (C0, DEL, C1), so no name, label key or label value may hold
// one, whichever protocol brings it. Each sample below is refused with reason "name"; the one
// beside it, in the same push, is taken.
func TestControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"newline": "b\nc", "escape": "b\x1b[31m", "DEL": "b\x7f", "C1": "b\u009b31m", "C1 first": "\u0080"} {
		t.Run(name, func(t *testing.T) {
			p := started(t, t.TempDir())
			host := "http://" + p.push.Addr().String()
			for _, c := range controlCases(text) {
				before := rejectedForName(t, p)
				c.push(t, p)
				deadline := time.Now().Add(time.Minute)
				for rejectedForName(t, p) < before+1 && time.Now().Before(deadline) {
					time.Sleep(5 * time.Millisecond)
				}
				if n := rejectedForName(t, p) - before; n != 1 {
					t.Errorf("%s: %d samples are refused with reason name, want 1", c.protocol, n)
				}
				if status, body := spoken(t, p, "GET", "/v1/external/"+c.metric+"_bad", ""); status != 404 {
					t.Errorf("%s: %d %s at %s, want the sample refused", c.protocol, status, body, host)
				}
				if c.alone {
					continue
				}
				if status, body := spoken(t, p, "GET", "/v1/external/"+c.metric+"_good", ""); status != 200 {
					t.Errorf("%s: %d %s, want the sample beside it taken", c.protocol, status, body)
				}
			}
		})
	}
}

type controlCase struct {
	protocol, metric string
	alone            bool // the push has nothing but the bad sample
	push             func(*testing.T, *dataPath)
}

func controlCases(text string) []controlCase {
	post := func(path, body string, statuses ...int) func(*testing.T, *dataPath) {
		return func(t *testing.T, p *dataPath) {
			status, answer := spoken(t, p, "POST", path, body)
			if len(statuses) > 0 && status != statuses[0] || status == 400 && !strings.Contains(answer, "control character") {
				t.Errorf("%s: %d %s", path, status, answer)
			}
		}
	}
	quoted, _ := json.Marshal(text)
	// Exposition has one escape for a control character, \n; the others stand as they are.
	exposed := strings.ReplaceAll(text, "\n", `\n`)
	all := []controlCase{
		{protocol: "NDJSON, value", metric: "nv", push: post("/v1/samples", fmt.Sprintf(`{"name":"nv_bad","type":"gauge","value":1,"labels":{"a":%s}}`+"\n"+`{"name":"nv_good","type":"gauge","value":1,"labels":{"a":"b"}}`, quoted))},
		{protocol: "NDJSON, key", metric: "nk", push: post("/v1/samples", fmt.Sprintf(`{"name":"nk_bad","type":"gauge","value":1,"labels":{%s:"a"}}`+"\n"+`{"name":"nk_good","type":"gauge","value":1}`, quoted))},
		{protocol: "exposition, value", metric: "ev", push: post("/metrics/job/j", fmt.Sprintf("ev_bad{a=\"%s\"} 1\nev_good{a=\"b\"} 1\n", exposed), 200)},
		{protocol: "exposition, key", metric: "ek", push: post("/metrics/job/j", fmt.Sprintf("ek_bad{\"%s\"=\"a\"} 1\nek_good 1\n", exposed), 200)},
		{protocol: "OTLP, value", metric: "ov", push: otlpPush("ov", "a", string(quoted))},
		{protocol: "OTLP, key", metric: "ok", push: otlpPush("ok", text, `"b"`)},
		{protocol: "remote write, value", metric: "rv", push: remotePush("rv", "a", text)},
		{protocol: "remote write, key", metric: "rk", push: remotePush("rk", text, "a")},
		{protocol: "URL, value", metric: "uv", alone: true, push: post("/v1/external/uv_bad?label="+url.QueryEscape("a="+text), "1", 400)},
		{protocol: "URL, key", metric: "uk", alone: true, push: post("/v1/external/uk_bad?label="+url.QueryEscape(text+"=a"), "1", 400)},
		{protocol: "URL of a group", metric: "ug", alone: true, push: post("/metrics/job/"+url.PathEscape(text), "ug_bad 1\n", 400)},
	}
	if strings.Contains(text, "\n") {
		return all // ends a StatsD line
	}
	return append(all,
		controlCase{protocol: "StatsD over HTTP", metric: "sh", push: post("/v1/statsd", "sh_bad:1|c|#a:"+text+"\nsh_good:1|c|#a:b\n")},
		controlCase{protocol: "StatsD, value", metric: "sv", push: statsdPush("sv_bad:1|c|#a:" + text + "\nsv_good:1|c|#a:b\n")},
		controlCase{protocol: "StatsD, key", metric: "sk", push: statsdPush("sk_bad:1|c|#" + text + ":a\nsk_good:1|c|#a:b\n")})
}

func statsdPush(lines string) func(*testing.T, *dataPath) {
	return func(t *testing.T, p *dataPath) {
		conn, err := net.Dial("tcp", p.statsd.Addrs()[1].String())
		must(t, err)
		defer conn.Close()
		if _, err := conn.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
	}
}

func otlpPush(name, key, value string) func(*testing.T, *dataPath) {
	return func(t *testing.T, p *dataPath) {
		quotedKey, _ := json.Marshal(key)
		point := func(name, attributes string) string {
			return fmt.Sprintf(`{"name":%q,"gauge":{"dataPoints":[{"asInt":"1","timeUnixNano":"%d","attributes":[%s]}]}}`, name, time.Now().UnixNano(), attributes)
		}
		body := fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[%s,%s]}]}]}`,
			point(name+"_bad", fmt.Sprintf(`{"key":%s,"value":{"stringValue":%s}}`, quotedKey, value)), point(name+"_good", ""))
		if status, answer := spokenWith(t, p, "/v1/metrics", body, "application/json"); status != 200 || !strings.Contains(answer, "control character") {
			t.Errorf("OTLP: %d %s", status, answer)
		}
	}
}

func remotePush(name, key, value string) func(*testing.T, *dataPath) {
	return func(t *testing.T, p *dataPath) {
		field := func(dst []byte, number protowire.Number, b []byte) []byte {
			return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
		}
		series := func(labels ...string) []byte {
			var one []byte
			for i := 0; i < len(labels); i += 2 {
				one = field(one, 1, field(field(nil, 1, []byte(labels[i])), 2, []byte(labels[i+1])))
			}
			sample := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(1))
			sample = protowire.AppendVarint(protowire.AppendTag(sample, 2, protowire.VarintType), uint64(time.Now().UnixMilli()))
			return field(one, 2, sample)
		}
		body := field(nil, 1, series("__name__", name+"_bad", key, value))
		body = field(body, 1, series("__name__", name+"_good"))
		if status, answer := spokenWith(t, p, "/api/v1/write", string(s2.EncodeSnappy(nil, body)), "application/x-protobuf", "Content-Encoding", "snappy"); status != 400 || !strings.Contains(answer, "control character") {
			t.Errorf("remote write: %d %s", status, answer)
		}
	}
}

// rejectedForName is how many samples were refused with reason "name", by all receivers.
func rejectedForName(t *testing.T, p *dataPath) (n int) {
	t.Helper()
	families, err := p.registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() != "sluice_samples_rejected_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" && l.GetValue() == "name" {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}
