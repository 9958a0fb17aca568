package push

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/push/native"
)

// trusting lets everybody read what is in shop, and nothing else; of pods nothing can be said yet.
type trusting struct{}

func (trusting) May(s *metric.Sender, _ metric.Verb, o metric.Object) (metric.Reason, string, metric.Right) {
	switch {
	case s == nil:
		return metric.Identity, "nobody", metric.Right{}
	case o.Resource == "pods":
		return metric.Pending, s.Address.String() + " is not known yet", metric.Right{}
	case o.Namespace != "shop":
		return metric.Identity, s.Address.String() + " may speak of shop only", metric.Right{}
	}
	return metric.Applied, "", metric.Right{}
}

func (trusting) Needs(*metric.Sample) metric.Right { return metric.Right{} }

func (trusting) Explain(s *metric.Sample) string {
	return "explained: " + string(s.Name) + " from " + s.Sender.Address.String()
}

func (trusting) Listed(*metric.Sender) bool { return false }

func (trusting) ExplainEnded(*metric.Sample) string { return "" }

// ExplainLimit knows the limit of what is called "limit".
func (trusting) ExplainLimit(s *metric.Sample) string {
	if string(s.Name) != "limit" {
		return ""
	}
	return "five are there: " + string(s.Name) + " from " + s.Sender.Address.String()
}

// nobodyKnown knows no address.
type nobodyKnown struct{}

func (nobodyKnown) Sender(netip.Addr) *metric.Sender { return nil }

// startTrusting runs a server in a cluster, with a room that has room for senders.
func startTrusting(t *testing.T, senders int, set ...func(*Config, *Parts)) (*harness, *pending.Buffer) {
	t.Helper()
	var room *pending.Buffer
	h := start(t, append(set, func(_ *Config, p *Parts) {
		c := pending.DefaultConfig()
		c.MaxSenders = senders
		if senders > 0 {
			room = pending.New(c, pending.Parts{
				NewApplier: func() pending.Applier { return p.NewApplier() }, Senders: nobodyKnown{}, Logger: slog.New(slog.DiscardHandler),
			})
		}
		p.Senders, p.Trust, p.Pending = nobodyKnown{}, trusting{}, room
	})...)
	return h, room
}

// A refusal of a sender says which rule it was, alone and in a body of lines.
func TestRefusalsAreExplained(t *testing.T) {
	h, _ := startTrusting(t, 0)
	h.table.refuse["no"] = metric.Identity
	h.table.refuse["limit"] = metric.OverLimit
	h.wants(403, `"reason":"identity","message":"explained: no from 127.0.0.1"`, "PUT", "/v1/namespaces/bank/external/no", "1")
	status, text := h.do("POST", "/v1/statsd", "yes:1|c\nno:1|c\nlimit:1|c\n")
	if status != 400 || !strings.Contains(text, `"message":"explained: no from 127.0.0.1","line":2`) || !strings.Contains(text, `"reason":"limit","message":"five are there: limit from 127.0.0.1","line":3`) {
		t.Errorf("%d %s", status, text)
	}
	h.table.refuse["full"] = metric.OverLimit
	for name, want := range map[string]string{
		"limit": `"reason":"limit","message":"five are there: limit from 127.0.0.1"`,
		"full":  `would be a new series, and the series limit is reached`,
	} {
		if status, text = h.do("PUT", "/v1/namespaces/bank/external/"+name, "1"); status != 429 || !strings.Contains(text, want) {
			t.Errorf("over the limit: %d %s, want %s", status, text, want)
		}
	}
}

// The sender is the other end of the connection: anybody can write a header.
func TestForwardedHeadersSayNothing(t *testing.T) {
	h, _ := startTrusting(t, 0)
	headers := []string{"X-Forwarded-For", "10.0.0.1", "Forwarded", "for=10.0.0.2", "X-Real-IP", "10.0.0.3", "True-Client-IP", "10.0.0.4"}
	for path, body := range map[string]string{"/v1/namespaces/shop/external/one": "1", "/v1/statsd": "two:1|c\n", "/v1/samples": `{"name":"three","type":"counter","value":1}`} {
		if res, text := h.send("POST", path, strings.NewReader(body), headers...); res.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, res.StatusCode, text)
		}
	}
	for _, name := range []string{"one", "two", "three"} {
		if got := h.table.senders[name]; got != "127.0.0.1" {
			t.Errorf("%s was sent by %q, want 127.0.0.1", name, got)
		}
	}
	res, text := h.send("GET", "/v1/namespaces/bank/external/one", nil, headers...)
	if res.StatusCode != 403 || !strings.Contains(text, "127.0.0.1 may speak of shop only") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

// Reading and deleting obey the trust of pushing.
func TestReadingObeysTrust(t *testing.T) {
	h, _ := startTrusting(t, 0)
	for _, path := range []string{"/v1/namespaces/shop/external/a", "/v1/namespaces/bank/external/a", "/v1/external/a"} {
		if status, text := h.do("POST", path, "1"); status != 200 {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
		says, retry  string
	}{
		{"GET", "/v1/namespaces/shop/external/a", 200, `"value":1`, ""},
		{"GET", "/v1/namespaces/bank/external/a", 403, `"reason":"identity"`, ""},
		{"HEAD", "/v1/namespaces/bank/external/a", 403, "", ""},
		{"DELETE", "/v1/namespaces/bank/external/a", 403, "may speak of shop only", ""},
		{"DELETE", "/v1/external/a", 403, "may speak of shop only", ""},
		{"GET", "/v1/namespaces/shop/pods/web-1/a", 503, `"reason":"pending","message":"127.0.0.1 is not known yet: try again in a moment"`, "1"},
		{"DELETE", "/v1/namespaces/shop/pods/*/a", 503, `"reason":"pending"`, "1"},
		{"DELETE", "/v1/namespaces/shop/external/a", 200, `"deleted":1`, ""},
	} {
		res, text := h.send(c.method, c.path, nil)
		if res.StatusCode != c.status || !strings.Contains(text, c.says) || res.Header.Get("Retry-After") != c.retry {
			t.Errorf("%s %s: %d %s (Retry-After %q)", c.method, c.path, res.StatusCode, text, res.Header.Get("Retry-After"))
		}
	}
	if h.table.get(metric.Object{Namespace: "bank"}, "a") == nil || h.table.get(metric.Object{}, "a") == nil {
		t.Error("deleted by who may not")
	}
}

// An object that is no longer alive is not read.
func TestReadingLeavesOutTheDead(t *testing.T) {
	alive := func(o metric.Object) bool { return o.Name == "web-1" }
	var got func(metric.Object) bool
	h := start(t, func(_ *Config, p *Parts) {
		p.Alive = alive
		p.Reader = spying{p.Reader, func(q metric.Query) { got = q.MatchObject }}
	})
	h.do("GET", "/v1/namespaces/shop/pods/web-1/a", "")
	if got == nil || !got(metric.Object{Name: "web-1"}) || got(metric.Object{Name: "web-2"}) {
		t.Error("the query does not ask who is alive")
	}
}

type spying struct {
	native.Reader
	spy func(metric.Query)
}

func (s spying) Objects(q metric.Query) ([]metric.Point, error) {
	s.spy(q)
	return s.Reader.Objects(q)
}

// Pending samples are answered with 202. The accounting holds, and each counts once it is decided.
func TestPendingPush(t *testing.T) {
	h, room := startTrusting(t, 10)
	h.table.refuse["later"], h.table.refuse["no"] = metric.Pending, metric.Identity
	status, text := h.do("POST", "/v1/namespaces/shop/external/later?label=a=b&ttl=1h", "4")
	want := `{"applied":0,"refused":0,"pending":1,"message":"it is held, and applied or rejected once its sender is known: explained: later from 127.0.0.1"}` + "\n"
	if status != 202 || text != want {
		t.Errorf("%d %s", status, text)
	}
	status, text = h.do("POST", "/v1/statsd", "later:2|c\nnow:1|c\nlater:3|c\n")
	if status != 202 || !strings.Contains(text, `"applied":1,"refused":0,"pending":2,`) {
		t.Errorf("%d %s", status, text)
	}
	status, text = h.do("POST", "/v1/samples", `{"name":"later","type":"counter","value":5,"namespace":"shop","object":"external","labels":{"a":"b"},"ttl":"1h"}`+"\n"+`{"name":"no","type":"gauge","value":1}`)
	if status != 403 || !strings.Contains(text, `"refused":1,"pending":1,`) || !strings.Contains(text, "1 of 2 samples were rejected, 0 stay applied") {
		t.Errorf("%d %s", status, text)
	}
	a := h.server.Account()
	if a.Pending() != 4 || a.Applied() != 1 || a.Received() != 6 {
		t.Errorf("%d pending, %d applied, %d received", a.Pending(), a.Applied(), a.Received())
	}
	delete(h.table.refuse, "later")
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it tries once more
	must(t, room.Run(ctx))
	e := h.table.get(metric.Object{Namespace: "shop"}, "later", metric.Label{Key: "a", Value: "b"})
	if e == nil || e.whole != 9 || e.last.TTL != time.Hour {
		t.Errorf("credited: %+v", e)
	}
	if e := h.table.get(metric.Object{}, "later"); e == nil || e.whole != 5 {
		t.Errorf("credited: %+v", e)
	}
	if a.Pending() != 0 || a.Applied() != 5 || a.Received() != 6 {
		t.Errorf("%d pending, %d applied, %d received", a.Pending(), a.Applied(), a.Received())
	}
	h.table.applied = 5 // held samples of one line and second came as one
}

// Without room it is refused, and may come again.
func TestPendingWithoutRoom(t *testing.T) {
	h, _ := startTrusting(t, 0)
	h.table.refuse["later"] = metric.Pending
	res, text := h.send("POST", "/v1/namespaces/shop/external/later", strings.NewReader("4"))
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || !strings.Contains(text, `"reason":"pending"`) {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if n := h.rejected(metric.Identity); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
}

// A policy restricts reading of external metrics by path and on the page of all series, alike.
func TestPoliciesRestrictReading(t *testing.T) {
	set := policy.New(time.Minute)
	h := start(t, func(_ *Config, parts *Parts) { parts.Policies = set })
	h.wants(200, "", "PUT", "/v1/namespaces/shop/external/secret", "1")
	h.wants(200, "", "PUT", "/v1/namespaces/shop/external/jobs?label=queue=mail", "2")
	h.wants(200, "", "PUT", "/v1/namespaces/shop/external/jobs?label=queue=fax", "3")
	h.wants(200, "", "PUT", "/v1/namespaces/shop/pods/web-1/secret", "4")
	set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{Rules: []policy.Rule{
		{Metric: "secret", Deny: true},
		{Metric: "jobs", Selector: &policy.Selector{MatchLabels: map[string]string{"queue": "mail"}}},
	}})})

	h.wants(403, `"policy"`, "GET", "/v1/namespaces/shop/external/secret", "")
	h.wants(403, `the external metric \"secret:last\" is denied by rules[0] of externalmetricpolicy/ours in the namespace shop`,
		"GET", "/v1/namespaces/shop/external/secret:last", "")
	h.wants(403, `must be asked for with a selector within \"queue=mail\", by rules[1]`, "GET", "/v1/namespaces/shop/external/jobs", "")
	h.wants(403, "rules[1]", "GET", "/v1/namespaces/shop/external/jobs?label=queue=fax", "")
	h.wants(200, `"value":2`, "GET", "/v1/namespaces/shop/external/jobs?label=queue=mail", "")
	h.wants(200, `"value":4`, "GET", "/v1/namespaces/shop/pods/web-1/secret", "")

	want := "# TYPE jobs gauge\njobs{namespace=\"shop\",queue=\"mail\"} 2\n# TYPE secret gauge\nsecret{namespace=\"shop\",pod=\"web-1\"} 4\n"
	if got := (gateway{h}).page(""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// seenNames is a policy.Checker that allows all, and has the longest name that it was asked about.
type seenNames struct{ longest atomic.Int64 }

func (s *seenNames) Check(r policy.Request) error {
	s.longest.Store(max(s.longest.Load(), int64(len(r.Expression.Name))))
	return nil
}

func (s *seenNames) MayHave(string, []metric.Expression, func(string) (string, bool), metric.Reader) bool {
	return true
}

func (s *seenNames) Governs(string, metric.Expression) (bool, error) { return false, nil }

// A name that no series can have is matched with no policy: a head has room for one of 16 KiB.
func TestLongNamesAreMatchedWithNoPolicy(t *testing.T) {
	var seen seenNames
	h := start(t, func(_ *Config, parts *Parts) { parts.Policies = &seen })
	fits := strings.Repeat("m", metric.MaxNameLength)
	h.wants(404, "", "GET", "/v1/namespaces/shop/external/"+fits+":last", "")
	for _, path := range []string{"/v1/namespaces/shop/external/", "/v1/namespaces/shop/pods/web-1/", "/v1/external/"} {
		h.wants(400, "must have at most 512", "GET", path+fits+"m", "")
		h.wants(400, "must have at most 512", "DELETE", path+fits+"m", "")
		h.wants(400, "must have at most 512", "GET", path+strings.Repeat("m", 12_000)+":last", "")
	}
	if longest := seen.longest.Load(); longest != metric.MaxNameLength {
		t.Errorf("a policy was asked about a name of %d bytes", longest)
	}
}

// The groups of Pushgateway clients are read as other series are: of external metrics, those that a policy
// denies are left out. Push times are the groups' own.
func TestPoliciesRestrictGroups(t *testing.T) {
	set := policy.New(time.Minute)
	h := start(t, func(_ *Config, parts *Parts) { parts.Policies = set })
	const text = "# TYPE secret gauge\nsecret 41\n# TYPE open gauge\nopen 42\n# TYPE jobs gauge\njobs{queue=\"mail\"} 43\njobs{queue=\"fax\"} 44\n" +
		"# TYPE took summary\ntook_sum 45\ntook_count 1\n# TYPE done counter\ndone 46\n"
	h.wants(200, "", "PUT", "/metrics/job/j/namespace/shop", text)
	h.wants(200, "", "PUT", "/metrics/job/j/namespace/shop/sluice_object/pods%2Fweb-1", "secret 47\n")
	set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{Rules: []policy.Rule{
		{Metric: "secret", Deny: true},
		{Metric: "jobs", Selector: &policy.Selector{MatchLabels: map[string]string{"queue": "mail"}}},
		{Metric: "took:p99", Deny: true}, // the page has all of a timer
		{Metric: "done:rate", Deny: true},
	}})})
	for path, number := range map[string]string{"/metrics": " %d\n", "/api/v1/metrics": `"%d"`} {
		_, body := (gateway{h}).ask("GET", path, "")
		for value, want := range map[int]bool{41: false, 42: true, 43: true, 44: false, 45: false, 46: true, 47: true} {
			if got := strings.Contains(body, fmt.Sprintf(number, value)); got != want {
				t.Errorf("%s has %d: %v\n%s", path, value, got, body)
			}
		}
		if !strings.Contains(body, "push_time_seconds") {
			t.Errorf("%s: no push times", path)
		}
	}
}

// A policy with subjects is for the account of the request.
func TestPoliciesOfAccounts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		set := policy.New(time.Minute)
		h, _ := startTown(t, func(_ *Config, parts *Parts) { parts.Policies = set })
		h.table.series[key{object: metric.Object{Namespace: "shop"}, name: "m"}] = &entry{kind: metric.Gauge, whole: 1}
		for account, code := range map[string]int{"till": 403, "other": 200} {
			set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "ours"}, policy.Spec{
				Subjects: []policy.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: account}},
				Rules:    []policy.Rule{{Metric: ".*", Deny: true}},
			})})
			h.wants(code, "", "GET", "/v1/namespaces/shop/external/m", "", asShop...)
		}
	})
}
