package push

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

func TestReadBack(t *testing.T) {
	h := start(t)
	for _, c := range [][3]string{
		{"PUT", "/v1/namespaces/shop/pods/web-1/queue", "9007199254740993"},
		{"PUT", "/v1/namespaces/shop/pods/web-2/queue", "1.25"},
		{"PUT", "/v1/namespaces/shop/external/depth?label=queue=mail", "3"},
		{"PUT", "/v1/namespaces/shop/external/depth?label=queue=sms%26%3C&label=zone=a", "-1e30"},
		{"PUT", "/v1/namespaces/shop/services/front/queue", "12"},
		{"PUT", "/v1/namespaces/shop/metrics/open", "5"},
		{"PUT", "/v1/nodes/a.example.com/open", "6"},
		{"PUT", "/v1/external/open", "7"},
	} {
		if status, answer := h.do(c[0], c[1], c[2]); status != 200 {
			t.Fatal(c, status, answer)
		}
	}
	for _, c := range []struct{ name, path string }{
		{"read_object.json", "/v1/namespaces/shop/pods/web-1/queue"},
		{"read_object_max_10s.json", "/v1/namespaces/shop/pods/web-1/queue:max:10s"},
		{"read_all_objects.json", "/v1/namespaces/shop/pods/*/queue"},
		{"read_rollup.json", "/v1/namespaces/shop/services/front/queue"},
		{"read_external.json", "/v1/namespaces/shop/external/depth"},
		{"read_external_one.json", "/v1/namespaces/shop/external/depth?label=queue=mail"},
		{"read_namespace.json", "/v1/namespaces/shop/metrics/open"},
		{"read_node.json", "/v1/nodes/a.example.com/open"},
		{"read_cluster_external.json", "/v1/external/open"},
		{"index.json", "/v1"},
	} {
		status, answer := h.do("GET", c.path, "")
		if status != 200 {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
		golden(t, c.name, answer)
	}
	h.wants(404, "", "GET", "/v1/namespaces/shop/external/depth?label=queue=fax", "")
	if res, text := h.send("HEAD", "/v1/external/open", nil); res.StatusCode != 200 || text != "" {
		t.Error(res.StatusCode, text)
	}
}

// A read of an object that the cluster view doesn't know yet is answered with 503: the client tries
// again.
func TestReadNotReady(t *testing.T) {
	h := start(t)
	res, answer := h.send("GET", "/v1/namespaces/shop/services/front/unready", nil)
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(answer, "not known yet") {
		t.Errorf("%d %s; want 503 with Retry-After", res.StatusCode, answer)
	}
}

func TestDelete(t *testing.T) {
	h := start(t)
	push := func() {
		for _, path := range []string{"external/d?label=q=a", "external/d?label=q=b", "pods/web-1/d", "pods/web-2/d"} {
			h.do("PUT", "/v1/namespaces/shop/"+path, "1")
		}
	}
	for _, c := range []struct {
		path, answer string
		left         int
	}{
		{"external/d?label=q=a", "{\"deleted\":1}\n", 3},
		{"external/d", "{\"deleted\":2}\n", 2},
		{"pods/web-1/d", "{\"deleted\":1}\n", 3},
		{"pods/*/d?sync=true", "{\"deleted\":2}\n", 2},
	} {
		push()
		status, answer := h.do("DELETE", "/v1/namespaces/shop/"+c.path, "")
		if status != 200 || answer != c.answer || len(h.table.series) != c.left {
			t.Errorf("%s: %d %s, %d left; want %s, %d", c.path, status, answer, len(h.table.series), c.answer, c.left)
		}
		if again, _ := h.do("DELETE", "/v1/namespaces/shop/"+c.path, ""); again != 404 {
			t.Errorf("%s: a second time %d", c.path, again)
		}
	}
	if h.disk.calls.Load() != 1 {
		t.Errorf("%d syncs", h.disk.calls.Load())
	}
}

func TestAnErrorsGolden(t *testing.T) {
	h := start(t)
	for name, c := range map[string][3]string{
		"error_number.json": {"PUT", "/v1/external/m", "12x"},
		"error_name.json":   {"PUT", "/v1/external/m:p95", "12"},
		"error_path.json":   {"GET", "/nowhere\x7f", ""},
		"error_method.json": {"PATCH", "/v1/samples", ""},
		"error_scope.json":  {"PUT", "/v1/pods/web-1/m", "1"},
	} {
		_, answer := h.do(c[0], strings.ReplaceAll(c[1], "\x7f", "%7f"), c[2])
		golden(t, name, answer)
	}
}

// ?sum=true merges what a GET finds to one item.
func TestSum(t *testing.T) {
	h := start(t)
	for _, push := range [][2]string{
		{"/v1/external/depth?type=gauge&label=queue=a&label=site=x", "2"}, {"/v1/external/depth?type=gauge&label=queue=b&label=site=x", "3.5"},
		{"/v1/external/huge?type=gauge&label=a=1", "1e308"}, {"/v1/external/huge?type=gauge&label=a=2", "1e308"},
		{"/v1/namespaces/shop/pods/web-1/busy?type=gauge", "1"}, {"/v1/namespaces/shop/pods/web-2/busy?type=gauge", "4"},
	} {
		if status, answer := h.do("PUT", push[0], push[1]); status != 200 {
			t.Fatal(status, answer)
		}
	}
	for path, c := range map[string]struct {
		status int
		says   []string
	}{
		"/v1/external/depth?sum=true":                      {200, []string{`"value":5.5,`, `"labels":{"site":"x"}`}},
		"/v1/external/depth?sum=true&label=queue=a":        {200, []string{`"value":2,`, `"labels":{"queue":"a","site":"x"}`}},
		"/v1/external/depth?sum=false":                     {200, []string{`"value":2,`, `"value":3.5,`}},
		"/v1/external/depth:total?sum=true":                {200, []string{`"value":5.5,`}},
		"/v1/external/depth:p95?sum=true":                  {400, []string{"do not add up"}},
		"/v1/namespaces/shop/pods/*/busy?sum=true":         {200, []string{`"value":5,`, `"name":"*"`}},
		"/v1/namespaces/shop/pods/*/busy:mean?sum=true":    {400, []string{"do not add up"}},
		"/v1/namespaces/shop/pods/web-1/busy:max?sum=true": {200, []string{`"value":1,`, `"name":"web-1"`}},
		"/v1/external/huge?sum=true":                       {404, []string{"add up to more than a number can hold"}},
		"/v1/external/depth?sum=yes":                       {400, []string{"must be true or false"}},
	} {
		status, answer := h.do("GET", path, "")
		if status != c.status || c.status == 200 && strings.Count(answer, `"value"`) != map[bool]int{true: 2, false: 1}[strings.Contains(path, "false")] {
			t.Errorf("GET %s: %d %s", path, status, answer)
		}
		for _, says := range c.says {
			if !strings.Contains(answer, says) {
				t.Errorf("GET %s: %s, want %s", path, answer, says)
			}
		}
	}
}

// shelf is a native.Lister.
type shelf struct{}

func (shelf) Namespaces(q inspect.Query) inspect.Page[string] {
	return inspect.Paged(q, []string{"shop", "bank", "docks"}, func(s *string) (string, string, inspect.Key) { return "", *s, inspect.Key{*s} })
}

func (shelf) Metrics(q inspect.Query) inspect.Page[inspect.Metric] {
	all := []inspect.Metric{{Namespace: "shop", Name: "a/b", Resource: "pods", Kind: "counter", Objects: 2, Series: 3}, {Namespace: "shop", Name: "jobs", Kind: "gauge", Series: 1}}
	return inspect.Paged(q, all, func(m *inspect.Metric) (string, string, inspect.Key) {
		return m.Namespace, m.Name, inspect.Key{m.Namespace, m.Name, m.Resource}
	})
}

func (shelf) Series(_, _, name string, _ int) []inspect.Series {
	return []inspect.Series{{Labels: map[string]string{"queue": "mail"}, Value: "1"}}
}

func TestPathsAboveMetricsAreListed(t *testing.T) {
	s := start(t, func(_ *Config, p *Parts) { p.Lister = shelf{} })
	for path, want := range map[string]string{
		"/v1/namespaces":          `{"namespaces":[{"name":"bank","path":"/v1/namespaces/bank"},{"name":"docks","path":"/v1/namespaces/docks"},{"name":"shop","path":"/v1/namespaces/shop"}]}`,
		"/v1/namespaces/?limit=1": `{"namespaces":[{"name":"bank","path":"/v1/namespaces/bank"}],"continue":"` + inspect.Key{"bank"}.Token("namespaces") + `"}`,
		"/v1/namespaces?limit=1&continue=" + inspect.Key{"docks"}.Token("namespaces"): `{"namespaces":[{"name":"shop","path":"/v1/namespaces/shop"}]}`,
		"/v1/namespaces/none": `{"metrics":[]}`,
		"/v1/namespaces/shop?limit=1": `{"metrics":[{"namespace":"shop","name":"a/b","resource":"pods","kind":"counter","objects":2,"series":3,` +
			`"lastSample":"0001-01-01T00:00:00Z","path":"/v1/namespaces/shop/pods/*/a%2Fb"}],"continue":"` + inspect.Key{"shop", "a/b", "pods"}.Token("metrics") + `"}`,
	} {
		status, body := s.do("GET", path, "")
		if status != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s, want\n%s", path, status, body, want)
		}
	}
	for path, want := range map[string]string{
		"/v1/namespaces?limit=0":    "limit is",
		"/v1/namespaces?limit=5001": "limit is",
		"/v1/namespaces?continue=x": "must be that of the page before",
		"/v1/namespaces/shop?continue=" + inspect.Key{"x"}.Token("namespaces"): "must be that of the page before",
		"/v1/namespaces?labels=a": `the parameter \"labels\" is unknown`,
		"/v1/namespaces/Shop":     "is not a namespace",
	} {
		if status, body := s.do("GET", path, ""); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %q", path, status, body, want)
		}
	}
	if status, body := s.do("PUT", "/v1/namespaces/shop", "1"); status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d %s", status, body)
	}
}

// A list has what the sender may read: its own namespace, and others by right.
func TestListsHaveWhatTheSenderMayRead(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t, func(_ *Config, p *Parts) { p.Lister = shelf{} })
		const shop, bank = `{"name":"shop","path":"/v1/namespaces/shop"}`, `{"name":"bank","path":"/v1/namespaces/bank"}`
		h.wants(200, `{"namespaces":[`+shop+`]}`, "GET", "/v1/namespaces", "", asShop...)
		h.wants(200, `"name":"jobs"`, "GET", "/v1/namespaces/shop", "", asShop...)
		h.wants(403, forbidden, "GET", "/v1/namespaces/bank", "", asShop...)
		c.rights[metric.Right{Verb: metric.Get, Namespace: "bank"}] = true
		h.wants(200, `{"metrics":[]}`, "GET", "/v1/namespaces/bank", "", "Authorization", "Bearer bound")
		h.wants(200, bank+","+shop, "GET", "/v1/namespaces", "", "Authorization", "Bearer bound")
		h.wants(401, "", "GET", "/v1/namespaces/shop", "")
	})
}

// Answers with many values that one address reads slowly leave memory to others, and it is there again once they are cut off.
func TestSlowReadersOfValues(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var network *memory
		h := start(t, inMemory, func(c *Config, p *Parts) {
			network = p.Listener.(*memory)
			c.MaxBodyBytes, c.MaxBufferedBytes = 64<<10, 1<<20
		})
		for i := range 1000 {
			label := metric.Label{Key: "i", Value: fmt.Sprint(i, strings.Repeat("x", 100))}
			h.table.series[key{metric.Object{Namespace: "shop"}, "m", metric.NewLabels([]metric.Label{label})}] = &entry{kind: metric.Gauge}
		}
		asks := func(from byte) int {
			conn, err := network.dialFrom(&net.TCPAddr{IP: net.IPv4(127, 0, 0, from), Port: 1})
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			write(t, conn, "GET /v1/namespaces/shop/external/m HTTP/1.1\r\nHost: a\r\n\r\n")
			line, err := bufio.NewReader(conn).ReadString('\n')
			must(t, err)
			status, err := strconv.Atoi(strings.Fields(line)[1])
			must(t, err)
			return status
		}
		slow := 0
		for ; asks(3) == 200; slow++ {
			if slow == 100 {
				t.Fatalf("%d answers of %d KB are read slowly", slow, 200)
			}
		}
		if got := asks(2); slow == 0 || got != 200 {
			t.Errorf("beside %d answers to a slow reader, another address gets %d", slow, got)
		}
		time.Sleep(DefaultConfig().WriteTimeout + time.Millisecond)
		synctest.Wait()
		if held := h.server.Reserved(); held != 0 {
			t.Errorf("%d bytes are held for readers that were cut off", held)
		}
		_, text := h.do("GET", "/v1/namespaces/shop/external/m", "")
		var whole struct {
			Items []struct{ Labels map[string]string }
		}
		if err := json.Unmarshal([]byte(text), &whole); err != nil || len(whole.Items) != 1000 || len(whole.Items[0].Labels["i"]) < 101 {
			t.Errorf("an answer has %d values: %v %.200s", len(whole.Items), err, text)
		}
	})
}
