package adapter

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authentication "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
)

// nodesOf are the nodes of pods, by the pods' UIDs.
type nodesOf map[string]string

func (n nodesOf) NodeOfUID(uid string) string { return n[uid] }

// A token of an agent's account says which node it is of: by itself, or by the pod that it is bound to.
func TestNodesOfTokens(t *testing.T) {
	const agents = "system:serviceaccount:sluice:"
	plane := newControlPlane(t)
	plane.tokens = map[string]string{"named": agents + "named", "bound": agents + "bound", "unbound": agents + "unbound", "other": agents + "other",
		"jane": "jane", "moved": agents + "moved"}
	plane.meant = map[string][]string{}
	for token := range plane.tokens {
		plane.meant[token] = []string{"sluice"}
	}
	plane.extra = map[string]map[string]authentication.ExtraValue{
		agents + "named": {nodeExtra: {"node-1"}, podUIDExtra: {"uid-2"}},
		agents + "bound": {podUIDExtra: {"uid-2"}},
		agents + "moved": {podUIDExtra: {"uid-of-nobody"}},
		agents + "other": {nodeExtra: {"node-1"}},
	}
	accounts := NewAgentAccounts(newAccounts(t, plane), []string{"sluice/named", "sluice/bound", "sluice/unbound", "sluice/moved"}, nodesOf{"uid-2": "node-2"})
	for token, want := range map[string]struct{ node, pod, why string }{
		"named":   {"node-1", "uid-2", ""},
		"bound":   {"node-2", "uid-2", ""},
		"unbound": {"", "", "bound to no pod whose node is known"},
		"moved":   {"", "", "bound to no pod whose node is known"},
		"other":   {"", "", "may not report for a node; must be one of agents-accounts"},
		"jane":    {"", "", "jane may not report for a node"},
		"guessed": {"", "", "invalid or expired"},
	} {
		node, pod, why, err := accounts.Node(t.Context(), token)
		if err != nil || node != want.node || pod != want.pod || !strings.Contains(why, want.why) || (why == "") != (want.why == "") {
			t.Errorf("%s: %q, %q, %q, %v; want %+v", token, node, pod, why, err, want)
		}
	}
}

// agentToken is a token of a pod that ends at a time.
func agentToken(pod string, end time.Time) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp": %d, "jti": %q}`, end.Unix(), pod)) + ".c2ln"
}

// A token that was reviewed is not asked about again for ten minutes, as long as it has not ended and its pod
// lives on that node.
func TestReviewedTokensStand(t *testing.T) {
	const user = "system:serviceaccount:sluice:agent"
	plane := newControlPlane(t)
	plane.tokens, plane.meant, plane.extra = map[string]string{}, map[string][]string{}, map[string]map[string]authentication.ExtraValue{}
	nodes := nodesOf{}
	issue := func(pod, node string, end time.Time) string {
		token := agentToken(pod, end)
		plane.tokens[token], plane.meant[token] = user+pod, []string{"sluice"}
		plane.extra[user+pod] = map[string]authentication.ExtraValue{podUIDExtra: {pod}}
		if nodes[pod] = node; pod == "" {
			plane.extra[user+pod] = map[string]authentication.ExtraValue{nodeExtra: {node}}
		}
		return token
	}
	hour := time.Now().Add(time.Hour)
	const agents = 20
	var tokens, allowed []string
	for i := range agents {
		tokens = append(tokens, issue(fmt.Sprint("-", i), fmt.Sprint("node-", i), hour))
		allowed = append(allowed, fmt.Sprint("sluice/agent-", i))
	}
	ended := issue("-ended", "node-e", time.Now().Add(-time.Second)) // the API server's clock may be behind
	unbound := issue("", "node-u", hour)
	accounts := NewAgentAccounts(newAccounts(t, plane), append(allowed, "sluice/agent-ended", "sluice/agent"), nodes)
	asks := func(want int, all ...string) {
		t.Helper()
		before := len(plane.asked())
		for _, token := range all {
			if node, _, why, err := accounts.Node(t.Context(), token); node == "" || why != "" || err != nil {
				t.Errorf("%s: %q, %q, %v", token, node, why, err)
			}
		}
		if got := len(plane.asked()) - before; got != want {
			t.Errorf("%d reviews, want %d", got, want)
		}
	}
	asks(agents, tokens...)
	for range 5 {
		asks(0, tokens...)
	}
	asks(4, ended, ended, unbound, unbound)

	change := func(token string, change func(r *reviewedToken)) {
		for digest, r := range accounts.reviewed {
			if r.pod == token {
				change(&r)
				accounts.reviewed[digest] = r
			}
		}
	}
	change("-0", func(r *reviewedToken) {
		if left := time.Until(r.until); left > rememberToken || left < rememberToken-time.Minute {
			t.Errorf("a token stands for %v", left)
		}
		r.until = time.Now()
	})
	asks(1, tokens[0], tokens[0])
	nodes["-1"] = "node-of-another"
	asks(1, tokens[1], tokens[1])
	delete(nodes, "-2")
	before := len(plane.asked())
	for range 2 {
		if node, _, why, _ := accounts.Node(t.Context(), tokens[2]); node != "" || why == "" {
			t.Errorf("a pod that is gone has %q", node)
		}
	}
	if got := len(plane.asked()) - before; got != 2 || len(accounts.reviewed) != agents-1 {
		t.Errorf("%d reviews, %d tokens stand", got, len(accounts.reviewed))
	}
	plane.set(func() { plane.away = true })
	asks(0, tokens[3:]...)
}

// No more than some reviews are in flight. An agent whose token cannot be reviewed soon is told to come back,
// before it gives up itself.
func TestReviewsOfAgentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := NewAgentAccounts(nil, nil, nodesOf{})
		for range maxAgentReviews {
			accounts.reviews <- struct{}{}
		}
		for range 20 {
			began := time.Now()
			_, _, why, err := accounts.Node(t.Context(), "x")
			if took := time.Since(began); !errors.Is(err, errManyReviews) || why != "" || took < admitAfter || took >= admitAfter*4/3 {
				t.Errorf("%q, %v after %v", why, err, took)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, _, err := accounts.Node(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Streams that end while their tokens wait for a review leave the others their time: those of agents, and of pods that push.
func TestCancelledReviewsOfAgentsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts, err := NewAccounts(&rest.Config{Host: "http://plane", Transport: new(allowing),
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "sluice", namespacesSince{})
		must(t, err)
		agents := NewAgentAccounts(accounts, nil, nodesOf{})
		var strangers sync.WaitGroup
		for i := range knownTokensBurst + 3*knownTokensPerSecond { // for 3 s
			ctx, cancel := context.WithCancel(t.Context())
			strangers.Go(func() { _, _, _, _ = agents.Node(ctx, fmt.Sprint("made-up-", i)) })
			time.AfterFunc(800*time.Microsecond, cancel) // so one address has eight at once
			time.Sleep(100 * time.Microsecond)
		}
		strangers.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, _, err := agents.Node(ctx, "another"); err != nil {
			t.Errorf("an agent: %v", err)
		}
		if _, _, err := accounts.Authenticate(ctx, "known", true); err != nil {
			t.Errorf("a pod: %v", err)
		}
	})
}
