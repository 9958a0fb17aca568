package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/client"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
)

// A client's text comes back cut, with its length, in answers, errors and logs.
func TestLongTextIsNotEchoed(t *testing.T) {
	t.Parallel()
	const mostEchoed = 3 << 10
	const lineOf = 60_000 // within a line's limit
	long := strings.Repeat("x", 900_000)
	var log logtest.Buffer
	p := startedWith(t, t.TempDir(), slog.New(slog.NewTextHandler(&log, nil)))
	cut := "... ("
	for name, c := range map[string]struct {
		path, body, contentType string
		saysLength              bool
	}{
		"NDJSON, name":              {"/v1/samples", fmt.Sprintf(`{"name":%q,"type":"gauge","value":1}`, long[:lineOf]), "", false},
		"NDJSON, name not UTF-8":    {"/v1/samples", `{"name":"` + long[:lineOf] + "\xff" + `","type":"gauge","value":1}`, "", true},
		"NDJSON, type":              {"/v1/samples", fmt.Sprintf(`{"name":"a","type":%q,"value":1}`, long[:lineOf]), "", true},
		"NDJSON, field":             {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge",%q:1}`, long[:lineOf]), "", true},
		"NDJSON, value":             {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":"%s"}`, long[:lineOf]), "", false},
		"NDJSON, object":            {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":1,"object":%q}`, long[:lineOf]), "", true},
		"NDJSON, object's name":     {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":1,"namespace":"a","object":"pods/%s"}`, long[:lineOf]), "", true},
		"NDJSON, resource":          {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":1,"namespace":"a","object":"%s/b"}`, long[:lineOf]), "", true},
		"NDJSON, namespace":         {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":1,"namespace":%q}`, long[:lineOf]), "", true},
		"NDJSON, label":             {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":1,"labels":{%q:"b"}}`, long[:lineOf]), "", false},
		"NDJSON, value of a label":  {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":1,"labels":{"b":%q}}`, long[:lineOf]), "", false},
		"NDJSON, label not UTF-8":   {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":1,"labels":{"%s":"b"}}`, long[:lineOf]+"\xff"), "", true},
		"NDJSON, ttl":               {"/v1/samples", fmt.Sprintf(`{"name":"a","type":"gauge","value":1,"ttl":%q}`, long[:lineOf]), "", true},
		"StatsD over HTTP":          {"/v1/statsd", long + ":1|c\n", "", false},
		"StatsD over HTTP, type":    {"/v1/statsd", "a:1|" + long[:8000] + "\n", "", false},
		"number":                    {"/v1/external/a", long, "", false},
		"exposition, name":          {"/metrics/job/a", long + " 1\n", "", false},
		"exposition, name not read": {"/metrics/job/a", long + "\x01 1\n", "", false},
		"exposition, value":         {"/metrics/job/a", "a " + long + "\n", "", false},
		"exposition, label":         {"/metrics/job/a", "a{" + long + "=\"b\"} 1\n", "", false},
		"OTLP, name":                {"/v1/metrics", fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":%q,"gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}`, long), "application/json", true},
		"OTLP, broken":              {"/v1/metrics", fmt.Sprintf(`{"resourceMetrics":%q}`, long), "application/json", false},
	} {
		contentType := c.contentType
		if contentType == "" {
			contentType = "text/plain"
		}
		if status, answer := spokenWith(t, p, c.path, c.body, contentType); len(answer) > mostEchoed || status != 400 && c.contentType == "" {
			t.Errorf("%s: %d, %d bytes: %.300s", name, status, len(answer), answer)
		} else if c.saysLength && !strings.Contains(answer, cut) {
			t.Errorf("%s: the answer does not say how much was cut: %s", name, answer)
		}
	}
	longish := long[:7000] // what fits into a request's line
	for _, path := range []string{"/v1/external/" + longish, "/v1/namespaces/a/pods/" + longish + "/b", "/v1/" + longish + "/a/b", "/v1/external/a?ttl=" + longish, "/v1/external/a?" + longish + "=1", "/v1/external/a?type=" + longish,
		"/v1/external/a?label=" + longish, "/v1/external/a?label=" + longish + "=b", "/metrics/job/a/" + longish, "/metrics/job/a/" + longish + "/b", "/metrics/job@base64/" + longish + "!", "/" + longish} {
		for _, method := range []string{"GET", "PUT"} {
			if _, answer := spoken(t, p, method, path, "1"); len(answer) > mostEchoed {
				t.Errorf("%s %.30s: %d bytes: %.300s", method, path, len(answer), answer)
			}
		}
	}
	api := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, path := range []string{client.ExternalAPI + "/namespaces/a/" + long, client.CustomAPI + "/namespaces/a/pods/*/" + long, client.CustomAPI + "/namespaces/a/pods/" + long + "/b", client.CustomAPI + "/namespaces/" + long + "/pods/*/b",
		client.CustomAPI + "/namespaces/a/" + long + "/*/b", client.ExternalAPI + "/namespaces/a/b?labelSelector=" + long + "%3D%3D", client.ExternalAPI + "/namespaces/a/b?labelSelector=%21%21" + long, client.ExternalAPI + "/namespaces/a/b:" + long} {
		res, err := api.Get("https://" + p.api.Addr().String() + path)
		must(t, err)
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || len(answer) > mostEchoed {
			t.Errorf("GET %.80s: %v, %d bytes: %.500s", path, err, len(answer), answer)
		}
	}
	conn, err := net.Dial("tcp", p.statsd.Addrs()[1].String())
	must(t, err)
	_, _ = io.WriteString(conn, long+":1|c\na:1|"+long+"\n")
	_ = conn.Close()
	eventually(t, func() bool { return strings.Contains(log.String(), "line rejected") }, func() string { return "no line is rejected: " + log.String() })
	for line := range strings.Lines(log.String()) {
		if len(line) > mostEchoed {
			t.Errorf("a line of %d bytes in the log: %.500s", len(line), line)
		}
	}
	long = long[:lineOf] // as much as is compared with each flag's name
	for _, args := range [][]string{
		{"push", "--statsd", p.statsd.Addrs()[0].String(), long + ":1|c"}, {"push", "--statsd", p.statsd.Addrs()[0].String(), "a:1|" + long}, {"push", "--to", "http://" + p.push.Addr().String(), long, "1"},
		{"push", long}, {"get", long}, {"get", "-n", long, "external", "a"}, {long}, {"serve", "--" + long}, {"serve", "--windows", long}, {"serve", "--statsd-udp", long}, {"serve", "--max-bytes", long}, {"serve", long},
	} {
		code, out, errs := called(t, args...)
		if len(out)+len(errs) > mostEchoed || code == command.ExitOK {
			t.Errorf("sluice %.60v: code %d, %d bytes: %.300s", args, code, len(out)+len(errs), errs)
		}
	}
}
