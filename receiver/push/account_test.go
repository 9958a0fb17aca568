package push

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"golang.org/x/crypto/bcrypt"
)

// town is a cluster: its API server, its trust and its table, where they matter to accounts.
// "shops" is a token of a service account of shop, "bound" one of a pod there, whose address is
// nobody's.
type town struct {
	mu     sync.Mutex
	rights map[metric.Right]bool
	away   bool
	asked  []metric.Right
	pod    *metric.Sender // of every address; nil: no pod's
}

var errTownAway = errors.New("connection refused")

func (c *town) Authenticate(_ context.Context, token string, _ bool) (*metric.Principal, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &metric.Principal{User: "system:serviceaccount:shop:till", Namespace: "shop", Name: "till"}
	switch {
	case c.away:
		return nil, "", errTownAway
	case token == "bound":
		a.PodUID = "uid-till"
	case token != "shops":
		return nil, "the token is over", nil
	}
	return a, "", nil
}

func (c *town) Authorize(_ context.Context, _ *metric.Principal, r metric.Right) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r)
	if c.away {
		return false, errTownAway
	}
	return c.rights[r], nil
}

func (c *town) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *town) PodWithUID(uid string) *metric.Pod {
	return &metric.Pod{Namespace: "shop", Name: "till", UID: uid}
}

func (c *town) Sender(a netip.Addr) *metric.Sender { return c.pod }

type townTrust struct{}

func (townTrust) May(s *metric.Sender, verb metric.Verb, o metric.Object) (metric.Reason, string, metric.Right) {
	needs := metric.Right{Verb: verb, Namespace: o.Namespace}
	if s.Pod != nil && s.Principal == nil && o.Namespace == s.Pod.Namespace {
		return metric.Applied, "", metric.Right{}
	}
	if s.Reads != nil {
		needs.Verb, needs.Series = metric.Read, true
		switch s.Reads.Check(needs) {
		case metric.Allowed:
			return metric.Applied, "", metric.Right{}
		case metric.Undecided:
			return metric.Pending, "it is not known yet", needs
		}
	}
	if s.Principal == nil && o.Namespace == "inn" {
		return metric.Pending, "it may be a pod's address", needs
	}
	if s.Principal == nil {
		return metric.Identity, "it is nobody's address", needs
	}
	if o.Namespace == "shop" {
		return metric.Applied, "", metric.Right{}
	}
	switch s.Principal.Check(needs) {
	case metric.Allowed:
		return metric.Applied, "", metric.Right{}
	case metric.Denied:
		return metric.Identity, needs.Forbidden(s.Principal.User), needs
	}
	return metric.Pending, "it is not known yet", needs
}

func (c townTrust) Needs(s *metric.Sample) metric.Right {
	_, _, needs := c.May(s.Sender, metric.Create, *s.Object)
	return needs
}

func (c townTrust) Explain(s *metric.Sample) string {
	_, why, _ := c.May(s.Sender, metric.Create, *s.Object)
	return why
}

func (townTrust) Listed(*metric.Sender) bool { return false }

func (townTrust) ExplainEnded(*metric.Sample) string { return "" }
func (townTrust) ExplainLimit(*metric.Sample) string { return "" }

// judging is the table's Applier with identity before it. It remembers refusals by sender, as the
// table does.
type judging struct {
	*writer
	refused *sync.Map // by remembered
}

// remembered is of whom, about what.
type remembered struct {
	sender uint64
	object metric.Object
}

func (j *judging) Apply(s *metric.Sample) metric.Reason {
	if s.Object == nil { // a line of StatsD is about the bank here
		s.Object = &metric.Object{Namespace: "bank"}
	}
	key := remembered{s.Sender.Key, *s.Object}
	if _, refused := j.refused.Load(key); refused {
		return metric.Identity
	}
	if reason, _, _ := (townTrust{}).May(s.Sender, metric.Create, *s.Object); reason != metric.Applied {
		if reason == metric.Identity {
			j.refused.Store(key, true)
		}
		return reason
	}
	return j.writer.Apply(s)
}

// startTown runs a server that listens inMemory: it remembers the town's answers for seconds.
func startTown(t *testing.T, set ...func(*Config, *Parts)) (*harness, *town) {
	t.Helper()
	c := &town{rights: map[metric.Right]bool{}}
	h := start(t, append([]func(*Config, *Parts){inMemory, func(cfg *Config, p *Parts) {
		cfg.Auth, cfg.AdminWipe = httpserver.AuthToken, true
		p.Senders, p.Trust, p.Authority, p.Pods = c, townTrust{}, c, c
		fresh, refused := p.NewApplier, new(sync.Map)
		p.NewApplier = func() Applier { return &judging{fresh().(*writer), refused} }
		p.Pending = pending.New(pending.DefaultConfig(), pending.Parts{NewApplier: func() pending.Applier { return p.NewApplier() }, Senders: c, Logger: p.Logger})
	}}, set...)...)
	return h, c
}

func (h *harness) wants(status int, says, method, path, body string, headers ...string) (text string) {
	h.Helper()
	res, text := h.send(method, path, strings.NewReader(body), headers...)
	if res.StatusCode != status || !strings.Contains(text, says) {
		h.Errorf("%s %s: %d %s, want %d %s", method, path, res.StatusCode, text, status, says)
	}
	challenged := res.Header.Values("WWW-Authenticate")
	if (status == 401) != (len(challenged) > 0) {
		h.Errorf("%s %s: %d with WWW-Authenticate %q", method, path, status, challenged)
	}
	if status == 503 && res.Header.Get("Retry-After") == "" {
		h.Errorf("%s %s: 503 without Retry-After", method, path)
	}
	return text
}

var asShop = []string{"Authorization", "Bearer shops"}

const forbidden = `samples.sluice.dev is forbidden: User \"system:serviceaccount:shop:till\" cannot `

// The objects that a token may push, and the answers about those that it may not.
func TestTokens(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		c.rights[metric.Right{Verb: metric.Create, Namespace: "mill"}] = true
		const shop, bank, mill = "/v1/namespaces/shop/external/a", "/v1/namespaces/bank/external/a", "/v1/namespaces/mill/external/a"
		ns := func(name string) string {
			return `"namespace":"` + name + `","name":"b","type":"counter","value":1}` + "\n"
		}
		line := func(names ...string) (text string) {
			for _, name := range names {
				text += "{" + ns(name)
			}
			return text
		}
		for _, one := range []struct {
			name               string
			status             int
			says               string
			method, path, body string
			headers            []string
		}{
			{"own namespace", 200, `"applied":1`, "PUT", shop, "1", asShop},
			{"a scheme is spelled as one likes", 200, `"applied":1`, "PUT", shop, "1", []string{"Authorization", "bEARER  shops "}},
			{"granted", 200, `"applied":1`, "PUT", mill, "1", asShop},
			{"not granted", 403, forbidden + `create resource \"samples\" in API group \"sluice.dev\" in the namespace \"bank\"`, "PUT", bank, "1", asShop},
			{"not granted at the cluster scope", 403, forbidden + `create resource \"samples\" in API group \"sluice.dev\" at the cluster scope`, "PUT", "/v1/external/a", "1", asShop},
			{"a timer's body", 403, forbidden, "POST", bank + "?type=timer", "1\n2\n", asShop},
			{"lines", 200, `"applied":2`, "POST", "/v1/samples", line("shop", "mill"), asShop},
			{"lines, one of which may not be", 403, `1 of 3 samples were rejected, 2 stay applied; the first: samples.sluice.dev is forbidden`, "POST", "/v1/samples", line("shop", "bank", "mill"), asShop},
			{"lines, one of which is nonsense", 400, `2 of 3 samples were rejected`, "POST", "/v1/samples", line("shop", "bank") + "x\n", asShop},
			{"lines of objects that cannot be", 400, `nodes are in no namespace`, "POST", "/v1/samples", `{"object":"nodes/n1",` + ns("shop"), asShop},
			{"statsd", 403, forbidden, "POST", "/v1/statsd", "x:1|c\ny:1|c\n", asShop},
			{"reading", 200, `"value":1`, "GET", shop, "", asShop},
			{"reading what is another's", 403, forbidden + `get resource`, "GET", bank, "", asShop},
			{"pushing is not reading", 403, forbidden + `get resource`, "GET", mill, "", asShop},
			{"deleting", 403, forbidden + `delete resource`, "DELETE", mill, "", asShop},
			{"a group", 200, `"applied":1`, "PUT", "/metrics/job/a", "x 1\n", asShop},
			{"another's group", 403, forbidden + `create`, "PUT", "/metrics/job/a/namespace/bank", "x 1\n", asShop},
			{"deleting another's group", 403, forbidden + `delete`, "DELETE", "/metrics/job/a/namespace/bank", "", asShop},
			{"wiping", 403, forbidden + `delete resource \"samples\" in API group \"sluice.dev\" at the cluster scope`, "PUT", "/api/v1/admin/wipe", "", asShop},
			{"a bound token", 200, `"applied":1`, "PUT", shop, "1", []string{"Authorization", "Bearer bound"}},

			{"a token that is over", 401, `"reason":"credentials","message":"the token is over"`, "PUT", shop, "1", []string{"Authorization", "Bearer old"}},
			{"no token", 401, `"reason":"credentials"`, "GET", shop, "", []string{"Authorization", "Bearer"}},
			{"for reading, too", 401, `the token is over`, "GET", "/metrics", "", []string{"Authorization", "Bearer old"}},
			{"health is everybody's", 200, ``, "GET", "/-/healthy", "", []string{"Authorization", "Bearer old"}},

			{"no credential", 401, `it is nobody's address; no credential was sent; want a bearer token for the audience \"sluice\" of who may create samples.sluice.dev in the namespace \"shop\"`, "PUT", shop, "1", nil},
			{"no credential, reading", 401, `may get samples.sluice.dev`, "GET", shop, "", nil},
			{"no credential, deleting", 401, `may delete samples.sluice.dev`, "DELETE", shop, "", nil},
			{"no credential, lines", 401, `"refused":2`, "POST", "/v1/samples", line("shop", "bank"), nil},
			{"no credential, a group", 401, `may create`, "PUT", "/metrics/job/a/namespace/shop", "x 1\n", nil},
			{"no credential, wiping", 401, `at the cluster scope`, "PUT", "/api/v1/admin/wipe", "", nil},
			{"a name and a password that nobody asks for are none", 401, `no credential was sent`, "PUT", shop, "1", []string{"Authorization", "Basic YTpi"}},
		} {
			t.Log(one.name)
			if one.path != "/-/healthy" {
				h.wants(one.status, one.says, one.method, one.path, one.body, one.headers...)
			} else if status, _ := h.clientOf(t, one.method, one.path, one.headers...); status != one.status {
				t.Errorf("%d", status)
			}
		}
		if n := h.server.Account().Pending(); n != 0 {
			t.Errorf("%d samples are held for want of a right", n)
		}
		if got, want := h.server.Account().Received(), h.server.Account().Applied()+h.rejected(metric.Identity)+h.rejected(metric.Malformed); got != want {
			t.Errorf("%d received, %d applied or rejected", got, want)
		}
	})
}

// Rights hold for OTLP and remote write as for lines, and the answers follow those protocols.
func TestTokensOfOtherProtocols(t *testing.T) {
	for _, one := range []struct {
		name    string
		headers []string
		rights  []string // namespaces that were granted
		away    bool
		status  int
		says    string
	}{
		{"granted", asShop, []string{"bank"}, false, 200, ""},
		{"not granted", asShop, nil, false, 403, `samples.sluice.dev is forbidden: User "system:serviceaccount:shop:till" cannot create resource "samples" in API group "sluice.dev" in the namespace "bank"`},
		{"a token that is over", []string{"Authorization", "Bearer old"}, nil, false, 401, "the token is over"},
		{"no credential", nil, nil, false, 401, `want a bearer token for the audience "sluice" of who may create samples.sluice.dev in the namespace "bank"`},
		{"nobody can be asked about the right", asShop, nil, true, 503, `cannot be asked whether User "system:serviceaccount:shop:till" may create`},
		{"nobody can be asked about the token", []string{"Authorization", "Bearer bound"}, nil, true, 503, "the API server cannot be asked about the token"},
		{"two credentials", []string{"Authorization", "Bearer shops", "Authorization", "Bearer bound"}, nil, false, 400, "there are 2 Authorization headers"},
	} {
		runInVirtualTime(t, one.name, func(t *testing.T) {
			h, c := startTown(t)
			h.wants(200, "", "PUT", "/v1/namespaces/shop/external/a", "1", asShop...) // the token is known
			for _, ns := range one.rights {
				c.rights[metric.Right{Verb: metric.Create, Namespace: ns}] = true
			}
			c.set(func() { c.away = one.away })
			codes := map[int]int{400: 3, 401: 16, 403: 7, 503: 14}
			for _, e := range otlpEncodings {
				a := h.export(encodeOTLP(t, gauges("x", "y"), e), e, one.headers...)
				if a.status != one.status || a.code != codes[one.status] || !strings.Contains(a.message, one.says) {
					t.Errorf("%s: %+v", e.ContentType(), a)
				}
			}
			remote := one.status
			if remote == 200 {
				remote = 204
			}
			said := strings.Trim(strconv.Quote(one.says), `"`)
			res := gateway{h}.wants(remote, said, "POST", "/api/v1/write", remote1(remoteSeries{"x", 0, 1}, remoteSeries{"y", 0, 1}), append([]string{"Content-Type", firstMessage}, one.headers...)...)
			if (remote == 401) != (res.Header.Get("WWW-Authenticate") != "") || (remote == 503) != (res.Header.Get("Retry-After") != "") {
				t.Errorf("a remote write's answer: %d %v", remote, res.Header)
			}
			if got, want := h.server.Account().Received(), h.server.Account().Applied()+h.rejected(metric.Identity); got != want {
				t.Errorf("%d received, %d applied or rejected", got, want)
			}
			if one.status == 401 && h.rejected(metric.Identity) < 3 || one.status == 400 && h.rejected(metric.Identity)+h.rejected(metric.Malformed) > 0 {
				t.Errorf("%d rejected for identity, %d as malformed", h.rejected(metric.Identity), h.rejected(metric.Malformed))
			}
		})
	}
}

// A token that is bound to a pod identifies that pod: one instance. Any other token may have many
// instances, which service.instance.id tells apart.
func TestTokensOfInstances(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		c.rights[metric.Right{Verb: metric.Create, Namespace: "bank"}] = true
		instance := metric.Label{Key: "service.instance.id", Value: "i-1"}
		for token, want := range map[string][]metric.Label{"shops": {instance}, "bound": nil} {
			all := gauges(token)
			all.ResourceMetrics().At(0).Resource().Attributes().PutStr(instance.Key, instance.Value)
			if a := h.export(encodeOTLP(t, all, otlp.Protobuf), otlp.Protobuf, "Authorization", "Bearer "+token); a != (otlpAnswer{status: 200}) {
				t.Errorf("%s: %+v", token, a)
			}
			if h.table.get(metric.Object{Namespace: "bank"}, token, want...) == nil {
				t.Errorf("%s: no series with the labels %v", token, want)
			}
		}
	})
}

// A line whose right nobody has asked about is applied within its request, and those beside it
// once.
func TestLinesAskForRights(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		c.rights[metric.Right{Verb: metric.Create, Namespace: "mill"}] = true
		line := func(ns string) string {
			return `{"namespace":"` + ns + `","name":"b","type":"counter","value":1}` + "\n"
		}
		h.wants(200, `"applied":4`, "POST", "/v1/samples", line("shop")+line("mill")+line("shop")+line("mill"), asShop...)
		for ns, want := range map[string]int64{"shop": 2, "mill": 2} {
			if e := h.table.get(metric.Object{Namespace: ns}, "b"); e == nil || e.whole != want {
				t.Errorf("%s: %+v, want %d", ns, e, want)
			}
		}
		if n := len(c.asked); n != 2 { // in the namespace, and at the cluster scope
			t.Errorf("asked %v", c.asked)
		}
	})
}

// clientOf is for answers that are no JSON.
func (h *harness) clientOf(t *testing.T, method, path string, headers ...string) (int, string) {
	t.Helper()
	g := gateway{h}
	res, text := g.ask(method, path, "", headers...)
	return res.StatusCode, text
}

// A right that is granted, or taken away, counts within ten seconds; what the table remembers of
// the sender does not stand in its way.
func TestRightsComeAndGo(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		bank := metric.Right{Verb: metric.Create, Namespace: "bank"}
		h.wants(403, forbidden, "POST", "/v1/statsd", "x:1|c\n", asShop...)
		c.set(func() { c.rights[bank] = true })
		h.wants(403, forbidden, "POST", "/v1/statsd", "x:1|c\n", asShop...)
		time.Sleep(10 * time.Second)
		h.wants(200, `"applied":1`, "POST", "/v1/statsd", "x:1|c\n", asShop...)
		c.set(func() { c.rights[bank] = false })
		time.Sleep(10 * time.Second)
		h.wants(403, forbidden, "POST", "/v1/statsd", "x:1|c\n", asShop...)
	})
}

// If the API server does not answer, the status is 503 and never 401 or 403.
func TestAuthorityAway(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		h.wants(200, "", "PUT", "/v1/namespaces/shop/external/a", "1", asShop...)
		c.set(func() { c.away = true })
		h.wants(503, `"reason":"unavailable","message":"the API server cannot be asked about the token: try again in a moment"`, "PUT", "/v1/namespaces/shop/external/a", "1", "Authorization", "Bearer bound")
		h.wants(200, "", "PUT", "/v1/namespaces/shop/external/a", "1", asShop...) // asked a moment ago
		for path, body := range map[string]string{"/v1/namespaces/bank/external/a": "1", "/v1/statsd": "x:1|c\n", "/metrics/job/a/namespace/bank": "x 1\n"} {
			h.wants(503, `cannot be asked whether User \"system:serviceaccount:shop:till\" may create samples.sluice.dev in the namespace \"bank\"`, "POST", path, body, asShop...)
		}
		const lines = `{"namespace":"shop","name":"b","type":"counter","value":1}` + "\n" + `{"namespace":"bank","name":"b","type":"counter","value":1}`
		h.wants(400, `"applied":1,"refused":1,"errors":[{"reason":"unavailable"`, "POST", "/v1/samples", lines, asShop...) // sent again, one would count twice
		h.wants(503, `may get`, "GET", "/v1/namespaces/bank/external/a", "", asShop...)
		if n := h.server.Account().Pending(); n != 0 {
			t.Errorf("%d samples are held", n)
		}
	})
}

// One request does not make the server ask without end.
func TestAskingIsBounded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		var body strings.Builder
		for i := range 3 * 32 {
			body.WriteString(`{"name":"a","type":"counter","value":1,"namespace":"n` + strings.Repeat("x", i%50) + string(rune('a'+i/50)) + "\"}\n")
		}
		h.wants(403, `"refused":96`, "POST", "/v1/samples", body.String(), asShop...)
		if n := len(c.asked); n > 32+1 {
			t.Errorf("%d questions for one request", n)
		}
	})
}

// GET /metrics shows what the account may read, and asks about the cluster scope first.
func TestAccountsReadGroups(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		g := gateway{h}
		for _, ns := range []string{"shop", "bank", "mill", "inn"} {
			g.put(ns)
		}
		exposes := func(want ...string) {
			t.Helper()
			for _, path := range []string{"/metrics", "/api/v1/metrics"} {
				_, text := g.ask("GET", path, "", asShop...)
				for _, ns := range []string{"shop", "bank", "mill", "inn"} {
					if strings.Contains(text, ns) != strings.Contains(strings.Join(want, " "), ns) {
						t.Errorf("GET %s, want %v\n%s", path, want, text)
					}
				}
			}
		}
		c.rights[metric.Right{Verb: metric.Get, Namespace: "mill"}] = true
		exposes("shop", "mill")
		if n := len(c.asked); n != 4 {
			t.Errorf("asked %v", c.asked)
		}
		if _, text := g.ask("GET", "/metrics", ""); strings.Contains(text, "push_time") {
			t.Errorf("without a credential\n%s", text)
		}
		c.set(func() { c.rights[metric.Right{Verb: metric.Get}] = true })
		h.server.Authenticator.Certificate("x") // another account has rights of its own
		other, _ := h.server.Authenticator.Token(t.Context(), netip.Prefix{}, "bound")
		if other == nil || other.Check(metric.Right{Verb: metric.Get, Namespace: "bank"}) != metric.Undecided {
			t.Errorf("%+v", other)
		}
		if _, text := g.ask("GET", "/metrics", "", "Authorization", "Bearer bound"); !strings.Contains(text, "bank") || !strings.Contains(text, "inn") {
			t.Errorf("with all rights\n%s", text)
		}
		if last := c.asked[len(c.asked)-1]; last != (metric.Right{Verb: metric.Get}) || len(c.asked) != 5 {
			t.Errorf("asked %v", c.asked)
		}
		c.set(func() { c.rights[metric.Right{Verb: metric.Delete}] = true })
		h.wants(202, `"deleted":4`, "PUT", "/api/v1/admin/wipe", "", asShop...)
	})
}

// A list asks about more namespaces than a push may.
func TestAccountsReadGroupsOfManyNamespaces(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t)
		g := gateway{h}
		const many = 40
		for i := range many {
			g.put(fmt.Sprint("n", i))
		}
		c.rights[metric.Right{Verb: metric.Get, Namespace: "n39"}] = true
		for _, path := range []string{"/metrics", "/api/v1/metrics"} {
			if res, text := g.ask("GET", path, "", asShop...); res.StatusCode != 200 || !strings.Contains(text, "n39") {
				t.Errorf("GET %s: %d %s", path, res.StatusCode, text)
			}
		}
		if n := len(c.asked); n != many+1 { // and at the cluster scope
			t.Errorf("%d questions, want %d", n, many+1)
		}
	})
}

func passwordFile(t *testing.T, name, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), 8)
	must(t, err)
	path := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(path, []byte(name+":"+string(hash)+"\n"), 0o600))
	return path
}

// Without a cluster, a name and a password are asked for and open everything.
func TestPasswordsStandalone(t *testing.T) {
	h := start(t, func(c *Config, _ *Parts) { c.BasicAuthFile = passwordFile(t, "anna", "open sesame") })
	const path = "/v1/namespaces/shop/external/a"
	anna := []string{"Authorization", "Basic YW5uYTpvcGVuIHNlc2FtZQ=="}
	h.wants(200, `"applied":1`, "PUT", path, "1", anna...)
	h.wants(200, `"value":1`, "GET", path, "", anna...)
	for name, header := range map[string]string{
		"this server asks for a name and a password": "",
		"name or password is wrong":                  "Basic YW5uYTpvcGVu",
		"is not Basic with name:password in base64":  "Basic a:b",
		"and none was sent":                          "Bearer abc",
	} {
		for _, path := range []string{path, "/v1/external/a", "/metrics", "/v1/"} {
			headers := []string{"Authorization", header}
			if header == "" {
				headers = nil
			}
			h.wants(401, name, "GET", path, "", headers...)
		}
		h.wants(401, `"refused":1`, "POST", path, "1", "Authorization", header)
	}
	if status, _ := h.clientOf(t, "GET", "/-/ready"); status != 200 {
		t.Errorf("/-/ready: %d", status)
	}
}

// In a cluster, a name has the rights that were granted to it, and no namespace of its own.
func TestPasswordsInACluster(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, c := startTown(t, func(c *Config, _ *Parts) { c.BasicAuthFile = passwordFile(t, "anna", "open sesame") })
		c.rights[metric.Right{Verb: metric.Create, Namespace: "bank"}] = true
		anna := []string{"Authorization", "Basic YW5uYTpvcGVuIHNlc2FtZQ=="}
		h.wants(200, `"applied":1`, "PUT", "/v1/namespaces/bank/external/a", "1", anna...)
		h.wants(403, `User \"sluice:basic:anna\" cannot create`, "PUT", "/v1/namespaces/mill/external/a", "1", anna...)
		h.wants(401, `name or password is wrong`, "PUT", "/v1/namespaces/bank/external/a", "1", "Authorization", "Basic YW5uYTpvcGVu")
		res, text := h.send("PUT", "/v1/namespaces/bank/external/a", strings.NewReader("1"))
		if all := res.Header.Values("WWW-Authenticate"); res.StatusCode != 401 || len(all) != 2 || !strings.Contains(text, "or a name and a password of who may create") {
			t.Errorf("%d %q %s", res.StatusCode, all, text)
		}
	})
}

// The answer to a sender that is pending for its address says that a credential would do.
func TestPendingHint(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, _ := startTown(t)
		h.wants(202, `it may be a pod's address; no credential was sent; want a bearer token`, "PUT", "/v1/namespaces/inn/external/a", "1")
		if h.server.Account().Pending() != 1 {
			t.Error("it is not held")
		}
	})
}

// With --push-auth=none a token is not looked at.
func TestTokensAreOff(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		h, _ := startTown(t, func(c *Config, _ *Parts) { c.Auth = httpserver.AuthNone })
		h.wants(403, `"reason":"identity","message":"it is nobody's address"`, "PUT", "/v1/namespaces/shop/external/a", "1", asShop...)
	})
}
