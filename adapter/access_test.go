package adapter

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	"k8s.io/client-go/rest"
)

const (
	requestsPath = customRoot + "v1beta2/namespaces/shop/pods/*/http_requests"
	memoryPath   = customRoot + "v1beta2/namespaces/shop/pods/*/memory_bytes"
	ordersPath   = externalRoot + "namespaces/shop/orders_waiting"

	requestsRight = "get custom.metrics.k8s.io/pods/http_requests in shop"
	ordersRight   = "list external.metrics.k8s.io/orders_waiting in shop"
)

// startDelegating runs a server that delegates to the control plane, ready or not.
func startDelegating(t *testing.T, plane *controlPlane, options ...func(*Config)) (*api, *logtest.Buffer) {
	t.Helper()
	server, log := delegating(t, plane, options...)
	return running(t, server), log
}

func delegating(t *testing.T, plane *controlPlane, options ...func(*Config)) (*Server, *logtest.Buffer) {
	t.Helper()
	cfg := configured(options)
	log := new(logtest.Buffer)
	server, err := New(cfg, Parts{
		Source: shop(), Cluster: newTown(), API: plane.rest(), Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	must(t, err)
	t.Cleanup(func() { routeKlog(slog.New(slog.DiscardHandler)) })
	return server, log
}

func bearer(token string) caller {
	return caller{headers: []string{"Authorization", "Bearer " + token}}
}

func TestTokensAndRightsAreTheAPIServersToJudge(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens["of-reader"] = "reader"
	plane.rights["reader"] = []string{requestsRight, ordersRight, "get /apis"}
	a, log := startDelegating(t, plane)
	a.waitReady(t)
	for _, c := range []struct {
		name    string
		who     caller
		path    string
		code    int
		message string
	}{
		{"allowed", bearer("of-reader"), requestsPath, 200, ""},
		{"allowed, in the other version", bearer("of-reader"), strings.Replace(requestsPath, "v1beta2", "v1beta1", 1), 200, ""},
		{"allowed, external", bearer("of-reader"), ordersPath, 200, ""},
		{"allowed, discovery", bearer("of-reader"), "/apis", 200, ""},
		{"another metric", bearer("of-reader"), memoryPath, 403,
			`pods.custom.metrics.k8s.io "*" is forbidden: User "reader" cannot get resource "pods/memory_bytes" in API group "custom.metrics.k8s.io" in the namespace "shop"`},
		{"another spelling", bearer("of-reader"), requestsPath + ":rate:10s", 403, `"pods/http_requests:rate:10s"`},
		{"another alias", bearer("of-reader"), strings.Replace(requestsPath, "/pods/", "/pod/", 1), 403, `"pod/http_requests"`},
		{"another namespace", bearer("of-reader"), strings.Replace(requestsPath, "shop", "other", 1), 403, `in the namespace "other"`},
		{"another external", bearer("of-reader"), externalRoot + `namespaces/shop/jobs%5C%7Cdone`, 403, `cannot list resource "jobs\\|done"`},
		{"unknown token", bearer("guessed"), requestsPath, 401, "Unauthorized"},
		{"nobody", caller{}, requestsPath, 403, `User "system:anonymous" cannot get resource "pods/http_requests"`},
		{"nobody, discovery", caller{}, "/apis", 403, "system:anonymous"},
		{"header without certificate", caller{headers: []string{"X-Remote-User", "reader"}}, requestsPath, 403, `"system:anonymous"`},
		{"privileged header without certificate", caller{headers: []string{"X-Remote-User", "a", "X-Remote-Group", "system:masters"}}, requestsPath, 403, `"system:anonymous"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, status := a.as(t, c.who, c.path)
			if resp.StatusCode != c.code || !strings.Contains(status.Message, c.message) {
				t.Errorf("status %d, want %d with %q: %q", resp.StatusCode, c.code, c.message, status.Message)
			}
		})
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("a client's fault is an error in the log:\n%s", log)
	}
}

// Rights in a namespace that was deleted are asked about anew: a later namespace of the name has other RoleBindings.
func TestRightsEndWithTheirNamespace(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens["of-reader"] = "reader"
	plane.rights["reader"] = []string{requestsRight}
	server, _ := delegating(t, plane)
	a := running(t, server)
	a.waitReady(t)
	want := func(when string, code int) {
		t.Helper()
		if resp, status := a.as(t, bearer("of-reader"), requestsPath); resp.StatusCode != code {
			t.Errorf("%s: %d %s, want %d", when, resp.StatusCode, status.Message, code)
		}
	}
	want("granted", 200)
	plane.mu.Lock()
	plane.rights["reader"] = nil
	plane.mu.Unlock()
	want("cached", 200)
	server.EndNamespace("other")
	want("cached still", 200)
	server.EndNamespace("shop")
	want("the next namespace", 403)
	plane.mu.Lock()
	plane.rights["reader"] = []string{requestsRight}
	plane.mu.Unlock()
	want("granted there", 200)
}

// A token of a service account of a namespace that was deleted is asked about anew, in whichever header it
// comes: a later namespace of the name may have an account of that name.
func TestTokensEndWithTheirNamespace(t *testing.T) {
	plane := newControlPlane(t)
	for _, user := range []string{batch, "system:serviceaccount:other:batch", "jane"} {
		plane.tokens["of-"+user], plane.rights[user] = user, []string{requestsRight}
	}
	server, _ := delegating(t, plane)
	a := running(t, server)
	a.waitReady(t)
	socket := caller{headers: []string{"Sec-WebSocket-Protocol",
		"base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("of-"+batch)) + ", v4.channel.k8s.io",
		"Connection", "upgrade", "Upgrade", "websocket"}}
	want := func(when string, who caller, code int) {
		t.Helper()
		if resp, status := a.as(t, who, requestsPath); resp.StatusCode != code {
			t.Errorf("%s: %d %s, want %d", when, resp.StatusCode, status.Message, code)
		}
	}
	for user := range plane.rights {
		want(user, bearer("of-"+user), 200)
	}
	plane.mu.Lock()
	clear(plane.tokens)
	plane.mu.Unlock()
	server.EndNamespace("bank")
	for user := range plane.rights {
		want("cached, "+user, bearer("of-"+user), 200)
	}
	want("cached, of a socket", socket, 200)
	server.EndNamespace("shop")
	want("the next namespace", bearer("of-"+batch), 401)
	want("the next namespace, of a socket", socket, 401)
	want("another namespace", bearer("of-system:serviceaccount:other:batch"), 200)
	want("of no namespace", bearer("of-jane"), 200)
	plane.mu.Lock()
	plane.tokens["of-"+batch] = batch
	plane.mu.Unlock()
	want("a token of the next namespace", bearer("of-"+batch), 200)
}

func TestProbesNeedNobody(t *testing.T) {
	plane := newControlPlane(t)
	a, _ := startDelegating(t, plane)
	a.waitReady(t)
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if resp, _ := a.as(t, caller{}, path); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	for _, path := range []string{"/version", "/openapi/v2", "/apis/custom.metrics.k8s.io/v1beta2", "/readyz/ping"} {
		if resp, _ := a.as(t, caller{}, path); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	for _, review := range plane.asked() {
		if strings.HasSuffix(review, "z") {
			t.Errorf("the API server was asked %q", review)
		}
	}
}

func TestFrontProxySpeaksForOthers(t *testing.T) {
	plane := newControlPlane(t)
	plane.rights["reader"] = []string{requestsRight}
	a, log := startDelegating(t, plane)
	a.waitReady(t)
	proxy, other := plane.proxyCA.client(t, "front-proxy"), plane.proxyCA.client(t, "etcd-client")
	foreign := newAuthority(t).client(t, "front-proxy")
	reader := []string{"X-Remote-User", "reader"}
	for _, c := range []struct {
		name string
		who  caller
		path string
		code int
	}{
		{"allowed", caller{certificate: &proxy, headers: reader}, requestsPath, 200},
		{"another metric", caller{certificate: &proxy, headers: reader}, memoryPath, 403},
		{"the aggregator", caller{certificate: &proxy, headers: []string{"X-Remote-User", "system:kube-aggregator", "X-Remote-Group", "system:masters"}}, "/apis/custom.metrics.k8s.io/v1beta2", 200},
		{"nobody named", caller{certificate: &proxy, headers: nil}, requestsPath, 403},
		{"another name of the authority", caller{certificate: &other, headers: reader}, requestsPath, 401},
		{"another authority", caller{certificate: &foreign, headers: reader}, requestsPath, noHandshake},
	} {
		if resp, status := a.as(t, c.who, c.path); resp.StatusCode != c.code {
			t.Errorf("%s: status %d, want %d: %s", c.name, resp.StatusCode, c.code, status.Message)
		}
	}
	within(t, "the proxy is logged", func() bool { return strings.Contains(log.String(), "names=[front-proxy]") })
	next := newAuthority(t)
	plane.set(func() { plane.config = with(plane.config, proxyCAKey, string(next.pem)) })
	renewed := next.client(t, "front-proxy")
	within(t, "the new authority is believed", func() bool {
		resp, _ := a.as(t, caller{certificate: &renewed, headers: reader}, requestsPath)
		return resp.StatusCode == http.StatusOK
	})
	if resp, _ := a.as(t, caller{certificate: &proxy, headers: reader}, requestsPath); resp.StatusCode != noHandshake {
		t.Errorf("the old authority: %d", resp.StatusCode)
	}
}

// With an empty list, any certificate of that authority could act for any user.
func TestEmptyAllowedNamesAreRefused(t *testing.T) {
	for _, names := range []string{"", "[]"} {
		plane := newControlPlane(t)
		plane.rights["reader"] = []string{requestsRight}
		plane.config = with(plane.config, proxyNamesKey, names)
		proxy := plane.proxyCA.client(t, "front-proxy")
		who := caller{certificate: &proxy, headers: []string{"X-Remote-User", "reader"}}

		a, log := startDelegating(t, plane)
		within(t, "the rejection is logged", func() bool {
			return strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), proxyNamesKey+" in ConfigMap")
		})
		if resp, status := a.as(t, who, requestsPath); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(status.Message, "set --requestheader-allowed-names of the kube-apiserver") {
			t.Errorf("%d %s", resp.StatusCode, status.Message)
		}
		if resp, _ := a.as(t, who, "/apis"); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("the header was believed: %d", resp.StatusCode)
		}
		if resp, _ := a.as(t, caller{}, "/readyz"); resp.StatusCode == http.StatusOK {
			t.Error("ready")
		}
		if resp, _ := a.as(t, caller{}, "/livez"); resp.StatusCode != http.StatusOK {
			t.Errorf("not alive: %d", resp.StatusCode)
		}
		plane.set(func() { plane.config = with(plane.config, proxyNamesKey, `["front-proxy"]`) })
		a.waitReady(t)
		if resp, status := a.as(t, who, requestsPath); resp.StatusCode != http.StatusOK {
			t.Errorf("when it was mended: %d %s", resp.StatusCode, status.Message)
		}
	}
}

func TestEmptyAllowedNamesCanBeAllowed(t *testing.T) {
	plane := newControlPlane(t)
	plane.rights["reader"] = []string{requestsRight}
	plane.config = with(plane.config, proxyNamesKey, "")
	whoever := plane.proxyCA.client(t, "whoever")
	a, log := startDelegating(t, plane, func(c *Config) { c.AnyProxyName = true })
	a.waitReady(t)
	if resp, status := a.as(t, caller{certificate: &whoever, headers: []string{"X-Remote-User", "reader"}}, requestsPath); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, status.Message)
	}
	within(t, "the warning is logged", func() bool { return strings.Contains(log.String(), "any certificate") })
}

// Without an API server at the start, the server is alive and not ready, and logs why.
func TestAPIServerAwayAtStart(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens["of-reader"], plane.rights["reader"] = "reader", []string{requestsRight}
	plane.away = true
	a, log := startDelegating(t, plane)
	within(t, "it is alive", func() bool {
		resp, err := a.client.Get(a.url + "/livez")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	if resp, _ := a.as(t, caller{}, "/readyz"); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("/readyz: %d", resp.StatusCode)
	}
	resp, status := a.as(t, bearer("of-reader"), requestsPath)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(status.Message, "waiting for ConfigMap kube-system/extension-apiserver-authentication") {
		t.Errorf("%d, Retry-After %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), status.Message)
	}
	within(t, "the wait is logged", func() bool { return strings.Contains(log.String(), "answer no queries") })
	plane.set(func() { plane.away = false })
	within(t, "it is ready", func() bool { ready, _ := a.Ready(); return ready })
	if resp, status := a.as(t, bearer("of-reader"), requestsPath); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, status.Message)
	}
}

// When the API server fails later, cached decisions still hold, and no other client is let in.
func TestAPIServerAwayLater(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens["of-reader"], plane.rights["reader"] = "reader", []string{requestsRight}
	a, _ := startDelegating(t, plane, func(c *Config) { c.RequestTimeout = time.Minute })
	a.waitReady(t)
	if resp, _ := a.as(t, bearer("of-reader"), requestsPath); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.StatusCode)
	}
	plane.set(func() { plane.away = true })
	plane.CloseClientConnections()
	if resp, status := a.as(t, bearer("of-reader"), requestsPath); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, status.Message)
	}
	if resp, _ := a.as(t, bearer("of-reader"), memoryPath); resp.StatusCode < http.StatusInternalServerError {
		t.Errorf("what was not judged: %d", resp.StatusCode)
	}
	if resp, _ := a.as(t, bearer("another"), requestsPath); resp.StatusCode < http.StatusUnauthorized {
		t.Errorf("who was not judged: %d", resp.StatusCode)
	}
	if ready, waiting := a.Ready(); !ready {
		t.Errorf("not ready: %s", waiting)
	}
}

func TestDecisionsAreKeptForAMoment(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens["of-reader"], plane.rights["reader"] = "reader", []string{requestsRight}
	a, _ := startDelegating(t, plane)
	a.waitReady(t)
	for range 3 {
		a.as(t, bearer("of-reader"), requestsPath)
		a.as(t, bearer("of-reader"), memoryPath)
	}
	if want := []string{"token of-reader", "reader: " + requestsRight, "reader: get custom.metrics.k8s.io/pods/memory_bytes in shop"}; !slices.Equal(plane.asked(), want) {
		t.Errorf("asked %q, want %q", plane.asked(), want)
	}
}

// Clients are authenticated until the last answer, which is later than the end of Run's context.
func TestAccessIsKeptUntilTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ended := new(Server), false
		s.access.run = func(ctx context.Context) { <-ctx.Done(); ended = true }
		ctx, stop := context.WithCancel(t.Context())
		end := s.keepAccess(ctx)
		stop()
		synctest.Wait()
		if ended {
			t.Error("it has ended with the context")
		}
		if end(); !ended {
			t.Error("it has not ended with the last answer")
		}
	})
}

// A hanging API server does not let requests pile up, and one address does not take the places of
// others.
func TestRequestsThatWaitForTheAPIServerAreBounded(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens["of-reader"], plane.held = "reader", make(chan struct{})
	a, _ := startDelegating(t, plane, func(c *Config) { c.MaxInFlight = 1 })
	within(t, "it is ready", func() bool { ready, _ := a.Ready(); return ready })
	var waiting sync.WaitGroup
	for i := range unauthorizedPerSlot - 1 { // the last one would be of an address that must leave it to others
		waiting.Go(func() {
			who := bearer("of-reader")
			who.from = net.IPv4(127, 0, 1, byte(i/unauthorizedPerSlotEach))
			if resp, _ := a.as(t, who, fmt.Sprintf("%snamespaces/shop/m%d", externalRoot, i)); resp.StatusCode != http.StatusForbidden {
				t.Errorf("let in and judged: %d", resp.StatusCode)
			}
		})
		within(t, "it waits", func() bool { return len(plane.asked()) > i+1 }) // and one token
		if i+1 == unauthorizedPerSlotEach {
			who := bearer("of-reader")
			who.from = net.IPv4(127, 0, 1, 0)
			resp, status := a.as(t, who, ordersPath)
			if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(status.Message, "from this address") {
				t.Errorf("one more of one address: %d %s", resp.StatusCode, status.Message)
			}
		}
	}
	if resp, _ := a.as(t, bearer("of-reader"), ordersPath); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %d", resp.StatusCode)
	}
	if resp, _ := a.as(t, caller{}, "/livez"); resp.StatusCode != http.StatusOK {
		t.Errorf("/livez: %d", resp.StatusCode)
	}
	close(plane.held)
	waiting.Wait()
}

// Clients of the front proxy do not wait behind the rate limit of made-up tokens.
func TestMadeUpTokensHoldUpNobodyElse(t *testing.T) {
	tokens, rights, err := reviewClients(&rest.Config{QPS: decisionsPerSecond, Burst: decisionBurst})
	must(t, err)
	first, second := tokens.AuthenticationV1().RESTClient().GetRateLimiter(), rights.AuthorizationV1().RESTClient().GetRateLimiter()
	for range decisionBurst {
		if !first.TryAccept() {
			t.Fatal("no burst of questions about tokens: the test shows nothing")
		}
	}
	for first.TryAccept() { // added meanwhile
	}
	if !second.TryAccept() {
		t.Error("a question about a right waits behind those about tokens")
	}
}

func TestClusterAndAPIComeTogether(t *testing.T) {
	for _, parts := range []Parts{{Cluster: newTown()}, {API: newControlPlane(t).rest()}} {
		parts.Source, parts.Logger = shop(), slog.New(slog.DiscardHandler)
		if _, err := New(DefaultConfig(), parts); err == nil || !strings.Contains(err.Error(), "Parts.Cluster, Parts.API") {
			t.Errorf("%v", err)
		}
	}
}

func with(config map[string]string, key, value string) map[string]string {
	changed := map[string]string{}
	maps.Copy(changed, config)
	changed[key] = value
	return changed
}

// within waits for a condition on real sockets and files, which virtual time cannot cover.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not so: %s", what)
}
