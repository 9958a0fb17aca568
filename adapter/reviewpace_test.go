package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// allowing is an API server without a socket, for virtual time: every token is good, and everybody has every right.
type allowing struct {
	mu    sync.Mutex
	asked int
	held  chan struct{} // if set, reviews are answered once it is closed
}

func (a *allowing) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.asked++
	a.mu.Unlock()
	if a.held != nil {
		<-a.held
	}
	w := httptest.NewRecorder()
	if strings.HasSuffix(r.URL.Path, "tokenreviews") {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return nil, err
		}
		review.Status.Authenticated, review.Status.User.Username = true, "someone"
		reply(w, review)
		return w.Result(), nil
	}
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, err
	}
	review.Status.Allowed = true
	reply(w, review)
	return w.Result(), nil
}

func (a *allowing) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// delegate returns the rights and the identities that an API server decides.
func (a *allowing) delegate(t *testing.T) (*rights, *identities) {
	t.Helper()
	routeKlog(slog.New(slog.DiscardHandler))
	tokens, reviews, err := reviewClients(&rest.Config{Host: "http://plane", Transport: a, QPS: decisionsPerSecond, Burst: decisionBurst})
	must(t, err)
	r, err := newRights(reviews)
	must(t, err)
	i, err := newIdentities(tokens, nil, r)
	must(t, err)
	return r, i
}

// may asks for a right in a namespace, with the deadline of a request.
func (r *rights) may(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultConfig().RequestTimeout)
	defer cancel()
	_, _, err := r.Authorize(ctx, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "x"}, Verb: "get", Namespace: namespace, ResourceRequest: true})
	return err
}

func comingFrom(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, originKey{}, &origin{address, func() bool { return false }})
}

func proxiedFor(ctx context.Context, reader string) context.Context {
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: reader})
	return context.WithValue(ctx, originKey{}, &origin{"proxy", func() bool { return true }})
}

// Requests that are cancelled while they wait for a review delay no other request, whoever sends them.
func TestCancelledReviewsCostNothing(t *testing.T) {
	for _, stranger := range []func(context.Context) context.Context{
		func(ctx context.Context) context.Context { return comingFrom(ctx, "stranger") },
		func(ctx context.Context) context.Context { return proxiedFor(ctx, "stranger") },
	} {
		synctest.Test(t, func(t *testing.T) {
			rights, _ := new(allowing).delegate(t)
			var strangers sync.WaitGroup
			for i := range 10_000 { // for more than the 15 s of a request, at either rate
				ctx, cancel := context.WithCancel(stranger(t.Context()))
				strangers.Go(func() { _ = rights.may(ctx, fmt.Sprint("n", i)) })
				time.AfterFunc(10*time.Millisecond, cancel)
				time.Sleep(100 * time.Microsecond)
			}
			strangers.Wait()
			for name, ctx := range map[string]context.Context{"client": comingFrom(t.Context(), "client"), "hpa": proxiedFor(t.Context(), "hpa"),
				"other": stranger(t.Context())} {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if err := rights.may(ctx, name); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// Reviews of many requests of one address, or of one reader over the front proxy, delay those of others by a turn.
func TestReviewsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := new(allowing)
		rights, _ := plane.delegate(t)
		var flood sync.WaitGroup
		for i := range proxiedBurst + 500 {
			flood.Go(func() { _ = rights.may(comingFrom(t.Context(), "stranger"), fmt.Sprint("n", i)) })
			flood.Go(func() {
				_ = rights.may(proxiedFor(t.Context(), accountPrefix+"bank:"+fmt.Sprint(i)), fmt.Sprint("p", i))
			})
		}
		synctest.Wait()
		for name, ctx := range map[string]context.Context{"client": comingFrom(t.Context(), "client"), "hpa": proxiedFor(t.Context(), accountPrefix+"kube-system:hpa")} {
			before := plane.count()
			must(t, rights.may(ctx, name))
			// Of both lines, those in the time of a few turns of the slower one.
			if others := plane.count() - before - 1; others > 20 {
				t.Errorf("%s waits for %d reviews of others", name, others)
			}
		}
		flood.Wait()
	})
}

// Reviews of tokens go on without their clients, so they are few, and addresses take turns.
func TestCancelledTokensCostAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := &allowing{held: make(chan struct{})}
		_, identities := plane.delegate(t)
		show := func(ctx context.Context, from, token string) bool {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/apis", nil)
			r.RemoteAddr = from + ":1"
			r.Header.Set("Authorization", "Bearer "+token)
			_, ok, _ := identities.AuthenticateRequest(r)
			return ok
		}
		ctx, cancel := context.WithCancel(t.Context())
		var strangers sync.WaitGroup
		for i := range 1000 {
			strangers.Go(func() { show(ctx, "10.0.0.1", fmt.Sprint("made-up-", i)) })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if n := plane.count(); n != maxTokenReviews {
			t.Errorf("%d tokens are reviewed of clients that are gone, want %d", n, maxTokenReviews)
		}
		strangers.Go(func() {
			if !show(t.Context(), "10.0.0.2", "good") {
				t.Error("a good token is rejected")
			}
		})
		synctest.Wait()
		response, ok, err := identities.AuthenticateRequest(httptest.NewRequest(http.MethodGet, "/apis", nil))
		if !ok || response.User.GetName() != user.Anonymous {
			t.Errorf("a request without a token waits for those with one: %v, %v", ok, err)
		}
		close(plane.held)
		strangers.Wait()
		if free := identities.places.Free(); free != maxTokenReviews {
			t.Errorf("%d places are free at the end", free)
		}
	})
}

// contexts keeps the contexts in which rights are asked for.
type contexts chan context.Context

func (c contexts) Authorize(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
	c <- ctx
	return authorizer.DecisionAllow, "", nil
}

// A right is asked for in the name of the address that a request came from, or of the front proxy.
func TestOriginsOfRequests(t *testing.T) {
	plane, asked := newControlPlane(t), make(contexts, 10)
	cfg, parts := configured(nil), Parts{Source: shop(), Cluster: newTown(), API: plane.rest(), Logger: slog.New(slog.DiscardHandler)}
	who, err := delegatedAccess(cfg, parts.API, parts.Logger)
	must(t, err)
	who.authorizer = asked
	server, err := prepare(cfg, parts, who)
	must(t, err)
	a := running(t, server)
	within(t, "it is ready", func() bool { ready, _ := a.Ready(); return ready })
	for len(asked) > 0 {
		<-asked
	}
	certificate := plane.proxyCA.client(t, "front-proxy")
	for _, c := range []struct {
		who     caller
		proxied bool
		address string
	}{
		{caller{certificate: &certificate, headers: []string{"X-Remote-User", "hpa"}, from: net.IPv4(127, 0, 1, 1)}, true, "127.0.1.1/32"},
		{caller{from: net.IPv4(127, 0, 1, 2)}, false, "127.0.1.2/32"},
	} {
		if resp, status := a.as(t, c.who, requestsPath); resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", resp.StatusCode, status.Message)
		}
		from, known := (<-asked).Value(originKey{}).(*origin)
		if !known || from.address != c.address || from.proxied() != c.proxied {
			t.Errorf("%+v, want %v, %s", from, c.proxied, c.address)
		}
	}
}
