package push

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/identity"
)

// Families implements export.Source.
func (t *table) Families(match func(*metric.Family) bool) (all []metric.Family) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, e := range t.series {
		family := metric.Family{Resource: k.object.Resource, Namespace: k.object.Namespace, Name: k.name, Kinds: metric.KindSetOf(e.kind)}
		if match(&family) && !slices.Contains(all, family) {
			all = append(all, family)
		}
	}
	return all
}

// Reader implements export.Source.
func (t *table) Reader() export.Reader { return t }

// Persist implements export.Source.
func (t *table) Persist(ctx context.Context) error {
	t.mu.Lock()
	persist := t.persist
	t.mu.Unlock()
	if persist == nil {
		return nil
	}
	return persist(ctx)
}

// Persisting implements export.Source.
func (t *table) Persisting() error { return t.persisting }

// Series implements export.Reader.
func (t *table) Series(f *metric.Family, k metric.Kind, yield func(*metric.LiveSeries) bool) {
	q := metric.Query{Resource: f.Resource, Namespace: f.Namespace, Object: "*", Expression: metric.Expression{Name: f.Name}}
	for _, key := range t.matching(q) {
		if e := t.series[key]; e.kind == k && !yield(&metric.LiveSeries{Object: key.object, Labels: key.labels, Value: metric.Int(e.whole)}) {
			return
		}
	}
}

// page returns the page of all series.
func (g gateway) page(query string, headers ...string) string {
	_, text := g.ask("GET", "/metrics/series"+query, "", headers...)
	return text
}

func (g gateway) head() int {
	res, _ := g.ask("HEAD", "/metrics/series", "")
	return res.StatusCode
}

func TestSeriesPage(t *testing.T) {
	h := gateway{start(t)}
	h.wants(200, "", "POST", "/v1/namespaces/shop/pods/web-1/hits?label=code=200", "3")
	h.wants(200, "", "PUT", "/v1/namespaces/mail/external/queue.depth", "7")
	for query, want := range map[string]string{
		"":                                 "# TYPE hits_total counter\nhits_total{namespace=\"shop\",pod=\"web-1\",code=\"200\"} 3\n# TYPE queue_depth gauge\nqueue_depth{namespace=\"mail\"} 7\n",
		"?match=&namespace=":               "# TYPE hits_total counter\nhits_total{namespace=\"shop\",pod=\"web-1\",code=\"200\"} 3\n# TYPE queue_depth gauge\nqueue_depth{namespace=\"mail\"} 7\n",
		"?match=h*&match=x&timers=summary": "# TYPE hits_total counter\nhits_total{namespace=\"shop\",pod=\"web-1\",code=\"200\"} 3\n",
		"?namespace=mail":                  "# TYPE queue_depth gauge\nqueue_depth{namespace=\"mail\"} 7\n",
		"?naming=statsd_exporter&match=h*": "# TYPE hits counter\nhits{namespace=\"shop\",pod=\"web-1\",code=\"200\"} 3\n",
		"?match=nothing":                   "",
	} {
		if text := h.page(query); text != want {
			t.Errorf("%s: got\n%s\nwant\n%s", query, text, want)
		}
	}
	h.wants(400, `naming is \"x\"; must be prometheus or statsd_exporter`, "GET", "/metrics/series?naming=x", "")
	h.wants(400, `timers is \"x\"; must be summary or histogram`, "GET", "/metrics/series?timers=x", "")
	h.wants(400, `timers=histogram needs the setting export-histograms`, "GET", "/metrics/series?timers=histogram", "")
	h.wants(400, `the parameter \"z\" is unknown`, "GET", "/metrics/series?z=1", "")
	h.wants(400, "more than 64 times", "GET", "/metrics/series?"+strings.Repeat("match=a&", 65), "")
	h.wants(405, "", "POST", "/metrics/series", "")
}

func TestSeriesPageNegotiates(t *testing.T) {
	h := start(t)
	h.wants(200, "", "POST", "/v1/namespaces/shop/external/a.hits", "3")
	for _, c := range []struct{ accept, coding, contentType, has string }{
		{"", "", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "a_hits_total{"},
		{"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8", "gzip", "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8", "{\"a.hits_total\",namespace=\"shop\"} 3.0\n# EOF\n"},
		{"text/plain;escaping=values", "gzip;q=0", "text/plain; version=0.0.4; charset=utf-8; escaping=values", "U__a_2e_hits__total{"},
		{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;escaping=dots", "br, gzip",
			"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=dots", "a_dot_hits__total"},
	} {
		req, _ := http.NewRequest("GET", h.url+"/metrics/series", nil)
		req.Header.Set("Accept", c.accept)
		req.Header.Set("Accept-Encoding", c.coding)
		res, err := h.client.Do(req)
		must(t, err)
		body := io.Reader(res.Body)
		if wants := strings.Contains(c.coding, "gzip") && !strings.Contains(c.coding, "q=0"); wants != (res.Header.Get("Content-Encoding") == "gzip") {
			t.Errorf("%q: Content-Encoding %q", c.coding, res.Header.Get("Content-Encoding"))
		} else if wants {
			body, err = gzip.NewReader(res.Body)
			must(t, err)
		}
		text, err := io.ReadAll(body)
		res.Body.Close()
		if err != nil || res.Header.Get("Content-Type") != c.contentType || !strings.Contains(string(text), c.has) {
			t.Errorf("%v %s\n%s", err, res.Header.Get("Content-Type"), text)
		}
	}
}

// A sender gets the series that it may read, and an error if it may read none of those asked for.
func TestSeriesPageObeysTrust(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		g, k := startShop(t)
		for _, namespace := range []string{"shop", "bank"} {
			g.table.series[key{object: metric.Object{Namespace: namespace}, name: "m"}] = &entry{kind: metric.Counter, whole: 1}
		}
		g.wants(200, "m_total{namespace=\"shop\"} 1\n", "GET", "/metrics/series", "")
		if text := g.page(""); strings.Contains(text, "bank") {
			t.Errorf("it tells of bank: %s", text)
		}
		g.harness.wants(403, "keeper may speak of shop only", "GET", "/metrics/series?namespace=bank", "")
		k.known.Store(false)
		g.harness.wants(503, "not known yet", "GET", "/metrics/series", "")
	})
}

// An account gets the series of the namespaces that it has the right to read.
func TestSeriesPageOfAccounts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		for _, namespace := range []string{"bank", "mill", "shop", "inn"} {
			h.table.series[key{object: metric.Object{Namespace: namespace}, name: "m"}] = &entry{kind: metric.Gauge, whole: 1}
		}
		c.rights[metric.Right{Verb: metric.Get, Namespace: "mill"}] = true
		if got, want := (gateway{h}).page("", asShop...), "# TYPE m gauge\nm{namespace=\"mill\"} 1\nm{namespace=\"shop\"} 1\n"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if n := len(c.asked); n != 4 {
			t.Errorf("asked %v", c.asked)
		}
		h.wants(403, forbidden+`get resource`, "GET", "/metrics/series?namespace=bank", "", asShop...)
		h.wants(401, "no credential was sent", "GET", "/metrics/series?namespace=bank", "")
		c.set(func() { c.rights[metric.Right{Verb: metric.Get}] = true })
		if got := (gateway{h}).page("", "Authorization", "Bearer bound"); strings.Count(got, "m{") != 4 {
			t.Error(got)
		}
	})
}

// A pod without a credential reads by the rights of its service account, and pushes and deletes by none of them.
func TestSeriesPageOfPods(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		c.pod = &metric.Sender{Key: 7, Known: true, Pod: &metric.Pod{Namespace: "monitoring", Name: "prometheus-0", UID: "p", ServiceAccount: "prometheus"}}
		for _, namespace := range []string{"bank", "mill"} {
			h.table.series[key{object: metric.Object{Namespace: namespace}, name: "m"}] = &entry{kind: metric.Gauge, whole: 1}
		}
		const lacks = `series.inspect.sluice.dev is forbidden: User \"system:serviceaccount:monitoring:prometheus\"`
		h.wants(401, lacks, "GET", "/metrics/series", "")
		c.set(func() { c.rights[metric.Right{Verb: metric.Read, Namespace: "mill", Series: true}] = true })
		time.Sleep(11 * time.Second)
		if got, want := (gateway{h}).page(""), "# TYPE m gauge\nm{namespace=\"mill\"} 1\n"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		h.wants(200, `"value":1`, "GET", "/v1/namespaces/mill/external/m", "")
		h.wants(401, lacks, "GET", "/v1/namespaces/bank/external/m", "")
		h.wants(401, "nobody's address", "PUT", "/v1/namespaces/mill/external/m", "2")
		h.wants(401, "nobody's address", "DELETE", "/v1/namespaces/mill/external/m", "")
		c.set(func() { c.rights[metric.Right{Verb: metric.Read, Series: true}] = true })
		time.Sleep(11 * time.Second)
		if got := (gateway{h}).page(""); strings.Count(got, "m{") != 2 {
			t.Error(got)
		}
		c.set(func() { c.away = true })
		time.Sleep(11 * time.Second)
		h.table.series[key{object: metric.Object{Namespace: "monitoring"}, name: "m"}] = &entry{kind: metric.Gauge, whole: 1}
		if got, want := (gateway{h}).page(""), "# TYPE m gauge\nm{namespace=\"monitoring\"} 1\n"; got != want {
			t.Errorf("while the API server is away: got\n%s\nwant\n%s", got, want)
		}
		h.wants(503, "may read series.inspect.sluice.dev", "GET", "/v1/namespaces/bank/external/m", "")
	})
}

// A target of Prometheus redirects it here: the page would be stored under the target's labels.
func TestReferredReadersHaveNoRights(t *testing.T) {
	referred := []string{"Referer", "http://10.1.2.3:8080/metrics"}
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		c.pod = &metric.Sender{Key: 7, Known: true, Pod: &metric.Pod{Namespace: "monitoring", Name: "prometheus-0", UID: "p", ServiceAccount: "prometheus"}}
		c.rights[metric.Right{Verb: metric.Read, Series: true}] = true
		c.rights[metric.Right{Verb: metric.Get, Namespace: "bank"}] = true
		for _, namespace := range []string{"bank", "monitoring"} {
			h.table.series[key{object: metric.Object{Namespace: namespace}, name: "m"}] = &entry{kind: metric.Gauge, whole: 1}
		}
		if text := (gateway{h}).page(""); !strings.Contains(text, "bank") {
			t.Errorf("without a Referer: got\n%s", text)
		}
		if text := (gateway{h}).page("", referred...); strings.Contains(text, "bank") || !strings.Contains(text, "monitoring") {
			t.Errorf("with a Referer: got\n%s\nwant what any pod of monitoring may read", text)
		}
		h.wants(401, "the request has a Referer", "GET", "/metrics/series?namespace=bank", "", referred...)
		h.wants(401, "the request has a Referer", "GET", "/v1/namespaces/bank/external/m", "", referred...)
		if text := (gateway{h}).page("", append(referred, asShop...)...); !strings.Contains(text, "bank") {
			t.Errorf("with a Referer and a token: got\n%s", text)
		}
	})
	inVirtualTime(t, func(t *testing.T) {
		h := start(t, inMemory, func(_ *Config, p *Parts) {
			c := identity.DefaultConfig()
			c.TrustedForwarders = []string{"127.0.0.1"}
			p.Senders, p.Trust = empty{}, forwarding{identity.New(c, cluster{}, empty{})}
		})
		h.table.series[key{object: metric.Object{Namespace: "bank"}, name: "m"}] = &entry{kind: metric.Gauge, whole: 1}
		if text := (gateway{h}).page(""); !strings.Contains(text, "bank") {
			t.Errorf("without a Referer: got\n%s", text)
		}
		h.wants(403, "the request has a Referer", "GET", "/metrics/series", "", referred...)
	})
}

// A total is sent once it is on disk, and not at all where the disk doesn't answer. While nothing is
// persisted, pages have no totals, and wait for nothing.
func TestSeriesPageWaitsForTheDisk(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h := gateway{start(t, inMemory)}
		h.table.series[key{name: "hits"}] = &entry{kind: metric.Counter, whole: 3}
		h.table.series[key{name: "depth"}] = &entry{kind: metric.Gauge, whole: 7}
		const gauge, total = "# TYPE depth gauge\ndepth 7\n", "# TYPE hits_total counter\nhits_total 3\n"
		asked := make(chan chan error, 1)
		h.table.persist = func(ctx context.Context) error {
			answer := make(chan error)
			asked <- answer
			select {
			case err := <-answer:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		pages := make(chan string, 1)
		ask := func() { pages <- h.page("") }

		go ask()
		disk := <-asked
		h.table.series[key{name: "hits"}] = &entry{kind: metric.Counter, whole: 4} // it isn't known to be on disk
		synctest.Wait()
		if len(pages) > 0 {
			t.Errorf("the page came before the disk answered: %s", <-pages)
		}
		disk <- nil
		if text := <-pages; text != gauge+total {
			t.Errorf("got %s", text)
		}
		go ask()
		disk = <-asked
		disk <- errors.New("the disk is full")
		if text := <-pages; !strings.Contains(text, "totals that are not on disk are not exposed") || !strings.Contains(text, "the disk is full") {
			t.Errorf("got %s", text)
		}
		go ask()
		<-asked
		if text := <-pages; !strings.Contains(text, context.DeadlineExceeded.Error()) {
			t.Errorf("got %s", text)
		}
		h.table.persisting = errors.New("the disk is full")
		if text := h.page(""); text != gauge {
			t.Errorf("got %s", text)
		}
		h.table.persisting = nil
		if text := h.page("?match=depth"); text != gauge {
			t.Errorf("got %s", text)
		}
		if status := h.head(); status != 200 { // two pages at once are allowed: each has given back its place
			t.Errorf("HEAD: %d", status)
		}
	})
}

// A page of groups waits for the disk as that of all series does, also for numbers without a type.
func TestGroupsPageWaitsForTheDisk(t *testing.T) {
	const gauge = "# TYPE depth gauge\ndepth 7\n"
	for kind, totals := range map[string]string{
		"counter":   "# TYPE hits counter\nhits 3\n",
		"summary":   "# TYPE took summary\ntook_sum 1\ntook_count 3\n",
		"histogram": "# TYPE took histogram\ntook_bucket{le=\"+Inf\"} 3\ntook_sum 1\ntook_count 3\n",
		"untyped":   "hits 3\n",
		"none":      "",
	} {
		t.Run(kind, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				h := gateway{start(t, inMemory)}
				h.wants(200, "", "PUT", "/metrics/job/a", gauge+totals)
				asks := 0
				var disk error
				h.table.persist = func(ctx context.Context) error {
					asks++
					if disk != nil {
						return disk
					}
					h.table.persist = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
					return nil
				}
				has := func(text string, want bool) {
					t.Helper()
					if !strings.Contains(text, "depth{") || strings.Contains(text, "} 3\n") != want {
						t.Errorf("got %s", text)
					}
				}
				page := func() string { _, text := h.ask("GET", "/metrics", ""); return text }

				waits := kind != "none"
				if disk = errors.New("the disk is full"); waits {
					h.wants(503, "totals that are not on disk are not exposed", "GET", "/metrics", "")
				}
				disk = nil
				has(page(), waits)
				if waits {
					h.wants(503, context.DeadlineExceeded.Error(), "GET", "/metrics", "")
				}
				if want := map[bool]int{true: 2}[waits]; asks != want {
					t.Errorf("waited for the disk %d times, want %d", asks, want)
				}
				h.wants(200, "", "HEAD", "/metrics", "")
				h.table.persisting = errors.New("the disk is full")
				has(page(), kind == "untyped")
			})
		})
	}
}

// A long page is sent in parts, each once it is on disk. One that fails later ends the connection.
func TestLongSeriesPageWaitsForTheDisk(t *testing.T) {
	h := gateway{start(t)}
	long := strings.Repeat("x", 1<<20)
	h.table.mu.Lock()
	for i := range 17 { // of 8 MiB at once
		label := metric.Label{Key: "i", Value: long}
		h.table.series[key{name: fmt.Sprint("hits", i), labels: metric.NewLabels([]metric.Label{label})}] = &entry{kind: metric.Counter}
	}
	h.table.mu.Unlock()
	for fails, want := range []string{"", "is not on disk: 503", "2 parts: unexpected EOF", "3 parts: unexpected EOF", "3 parts: whole"} {
		if fails == 0 {
			continue
		}
		var written atomic.Int32
		h.table.mu.Lock()
		h.table.persist = func(context.Context) error {
			if int(written.Add(1)) == fails {
				return errors.New("the disk is full")
			}
			return nil
		}
		h.table.mu.Unlock()
		req, _ := http.NewRequest("GET", h.url+"/metrics/series", nil)
		req.Header.Set("Accept-Encoding", "identity")
		res, err := h.client.Do(req)
		must(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		parts := written.Load()
		got := fmt.Sprint(parts, " parts: ", err)
		switch {
		case res.StatusCode != 200:
			got = fmt.Sprint("is not on disk: ", res.StatusCode)
		case err == nil && strings.Count(string(text), "_total{") == 17:
			got = fmt.Sprint(parts, " parts: whole")
		}
		if got != want {
			t.Errorf("failure %d: %s, want %s", fails, got, want)
		}
	}
}
