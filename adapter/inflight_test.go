package adapter

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestRequestsInFlightAreBounded(t *testing.T) {
	m := shop()
	m.blocked, m.entered = make(chan struct{}), make(chan struct{})
	a := start(t, m, func(c *Config) { c.MaxInFlight = 2 })
	path := customRoot + "v1beta2/namespaces/shop/pods/*/http_requests"
	codes := make(chan int, 2)
	for range 2 {
		go func() {
			resp, err := a.client.Get(a.url + path)
			if err != nil {
				codes <- 0
				return
			}
			_ = resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	<-m.entered
	<-m.entered
	resp, body := a.get(t, path, "application/json")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	if s := status(t, body); !strings.Contains(s.Message, "2 requests are in flight") {
		t.Errorf("%q", s.Message)
	}
	for _, path := range []string{"/readyz", "/livez", "/version"} {
		if resp, _ := a.get(t, path, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d while the server is full", path, resp.StatusCode)
		}
	}
	close(m.blocked)
	for range 2 {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a request that was let in got %d", code)
		}
	}
	go func() { <-m.entered }()
	if resp, _ := a.get(t, path, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d when there is room again", resp.StatusCode)
	}
}

// A client's slot is its own while a request is answered, and free again afterwards.
func TestRequestsInFlightAreBoundedPerClient(t *testing.T) {
	var limited http.Handler
	ask := func(from string) int {
		r, w := httptest.NewRequest(http.MethodGet, "/apis/"+from, nil), httptest.NewRecorder()
		r.RemoteAddr = from + ":1234"
		limited.ServeHTTP(w, r)
		return w.Code
	}
	limited = limitInFlightPerClient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/10.0.0.1" {
			return
		}
		if again, other := ask("10.0.0.1"), ask("10.0.0.2"); again != http.StatusTooManyRequests || other != http.StatusOK {
			t.Errorf("during a request, the client gets %d and another one %d; want 429 and 200", again, other)
		}
	}), 1, nil)
	for range 2 {
		if code := ask("10.0.0.1"); code != http.StatusOK {
			t.Errorf("a client without a request in flight gets %d", code)
		}
	}
}

// Requests of the accounts of one namespace, which may read their answers as slowly as they like, leave places to others.
func TestReadersLeavePlacesToOthers(t *testing.T) {
	plane := newControlPlane(t)
	for token, user := range map[string]string{"of-a": accountPrefix + "shop:a", "of-b": accountPrefix + "shop:b", "of-hpa": accountPrefix + "kube-system:hpa"} {
		plane.tokens[token], plane.rights[user] = user, []string{requestsRight}
	}
	source := shop()
	source.blocked, source.entered = make(chan struct{}), make(chan struct{})
	server, err := New(configured([]func(*Config){func(c *Config) { c.MaxInFlight, c.ExternalMetrics = 8, false }}),
		Parts{Source: source, Cluster: newTown(), API: plane.rest(), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	a := running(t, server)
	a.waitReady(t)
	var answered sync.WaitGroup
	defer answered.Wait()
	defer close(source.blocked)
	refusal := func(who string) string {
		t.Helper()
		refused := make(chan string, 1)
		answered.Go(func() {
			if resp, status := a.as(t, bearer(who), requestsPath); resp.StatusCode != http.StatusOK {
				refused <- status.Message
			}
		})
		select {
		case <-source.entered:
			return ""
		case why := <-refused:
			return why
		}
	}
	for i, who := range []string{"of-a", "of-b", "of-a", "of-b", "of-a", "of-b"} { // three quarters
		if why := refusal(who); why != "" {
			t.Fatalf("%d of them: %s", i, why)
		}
	}
	for _, who := range []string{"of-a", "of-b"} {
		if why := refusal(who); !strings.Contains(why, "6 of them of this reader") {
			t.Errorf("%s is refused with %q", who, why)
		}
	}
	if why := refusal("of-hpa"); why != "" {
		t.Error(why)
	}
}

// Places of shares are counted until they are given back.
func TestReaderShares(t *testing.T) {
	for each, want := range map[int][3]int{0: {48, 12, 3}, 20: {20, 20, 20}, 64: {64, 0, 0}} {
		shares, taken := newReaderShares(64, each), [3]int{}
		for reader := range taken {
			for shares.take(fmt.Sprint(reader), 1, "requests") == "" {
				taken[reader]++
			}
		}
		if taken != want {
			t.Errorf("each has %d: %v, want %v", each, taken, want)
		}
		for reader, n := range taken {
			for range n {
				shares.give(fmt.Sprint(reader), 1)
			}
		}
		if shares.taken.Held() != 0 || shares.taken.Len() != 0 {
			t.Errorf("%d places of %d readers are taken at the end", shares.taken.Held(), shares.taken.Len())
		}
	}
}

// nobodyAway is a source without replicas.
type nobodyAway struct{ inspect.Source }

func (nobodyAway) Away() []string { return nil }

// heldWriter is a client that reads its answer once it is released.
type heldWriter struct {
	http.ResponseWriter
	begun, release chan struct{}
}

func (w heldWriter) Write([]byte) (int, error) {
	w.begun <- struct{}{}
	<-w.release
	return 0, nil
}

// Long lists that a reader reads slowly leave memory to others, and short ones need none.
func TestSlowReadersOfLists(t *testing.T) {
	n := newInspection(nobodyAway{}, nil, time.Minute)
	held := heldWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	write := func(w http.ResponseWriter, reader string, bytes int) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		n.write(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: reader})), "metrics", make([]byte, bytes))
	}
	asks := func(reader string, bytes int) int {
		w := httptest.NewRecorder()
		write(w, reader, bytes)
		return w.Code
	}
	var done sync.WaitGroup
	for range 2 {
		done.Go(func() { write(held, "slow", maxWritten*3/8) })
		<-held.begun
	}
	for _, c := range []struct {
		reader      string
		bytes, want int
	}{
		{"slow", longAnswer + 1, http.StatusTooManyRequests}, {"slow", longAnswer, http.StatusOK}, {"other", maxWritten / 8, http.StatusOK},
	} {
		if got := asks(c.reader, c.bytes); got != c.want {
			t.Errorf("%d bytes for %s: %d, want %d", c.bytes, c.reader, got, c.want)
		}
	}
	close(held.release)
	done.Wait()
	if got := asks("slow", 2*maxWritten); got != http.StatusOK {
		t.Errorf("an answer that is longer than all may be, alone: %d", got)
	}
	if n.written.taken.Held() != 0 {
		t.Errorf("%d bytes are left", n.written.taken.Held())
	}
}

// Requests of strangers that wait for the API server keep out neither those of the front proxy, even of all addresses, nor a
// few of another address.
func TestStrangersKeepNoAutoscalerOut(t *testing.T) {
	plane := newControlPlane(t)
	plane.rights["hpa"] = []string{requestsRight}
	plane.tokens["of-hpa"] = "hpa"
	plane.heldTokens = make(chan struct{})
	release := sync.OnceFunc(func() { close(plane.heldTokens) })
	server, _ := delegating(t, plane, func(c *Config) { c.MaxInFlight, c.RequestTimeout = 1, time.Hour }) // 16 wait, 2 of each address
	a := running(t, server)
	a.waitReady(t)
	var strangers sync.WaitGroup
	defer strangers.Wait()
	defer release()
	wait := func(from byte) {
		before := len(plane.asked())
		strangers.Go(func() {
			who := bearer(fmt.Sprint("made-up-", before))
			who.from = net.IPv4(127, 0, 1, from)
			a.as(t, who, requestsPath)
		})
		eventually(t, "it waits", func() bool { return len(plane.asked()) > before })
	}
	for address := range byte(7) {
		wait(address + 1)
		wait(address + 1)
	}
	certificate := plane.proxyCA.client(t, "front-proxy")
	proxied := caller{certificate: &certificate, headers: []string{"X-Remote-User", "hpa"}}
	if resp, status := a.as(t, proxied, requestsPath); resp.StatusCode != http.StatusOK {
		t.Errorf("the front proxy gets %d %s", resp.StatusCode, status.Message)
	}
	wait(100) // another address
	foreign := newAuthority(t).client(t, "front-proxy")
	for who, is := range map[string]struct {
		caller
		want int
	}{
		"a stranger": {bearer("made-up"), http.StatusTooManyRequests}, "the front proxy": {proxied, http.StatusOK},
		"a false proxy": {caller{certificate: &foreign, headers: proxied.headers}, noHandshake},
	} {
		is.from = net.IPv4(127, 0, 1, 1) // has its two
		if resp, status := a.as(t, is.caller, requestsPath); resp.StatusCode != is.want {
			t.Errorf("%s gets %d %s, want %d", who, resp.StatusCode, status.Message, is.want)
		}
	}
}
