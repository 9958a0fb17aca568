package adapter

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

const (
	// rememberToken is the longest time for which a reviewed token stands, maxRemembered how many do.
	rememberToken = 10 * time.Minute
	maxRemembered = 20_000
	// maxAgentReviews is the number of reviews in flight: knownTokensPerSecond of them pass. Others wait for
	// admitAfter, and up to a third longer, so that those who are sent away do not come back all at once. An
	// agent itself waits five seconds.
	maxAgentReviews = 64
	admitAfter      = 3 * time.Second
)

// errManyReviews sends an agent away. It comes back within two seconds.
var errManyReviews = errors.New("too many tokens are reviewed at once; try again")

// AgentAccounts finds out which node an agent's token is of.
type AgentAccounts struct {
	accounts *Accounts
	allowed  []string // namespace/serviceaccount
	nodes    Nodes
	reviews  chan struct{} // those in flight

	mu       sync.Mutex
	reviewed map[[sha256.Size]byte]reviewedToken
}

// reviewedToken is the node of a token that was reviewed, as long as its pod lives.
type reviewedToken struct {
	node, pod string // pod is its UID
	until     time.Time
}

// Nodes knows the nodes of pods.
type Nodes interface {
	// NodeOfUID returns the name of a pod's node; empty: it is not known.
	NodeOfUID(uid string) string
}

// NewAgentAccounts returns the accounts of agents, which have one of some service accounts.
func NewAgentAccounts(accounts *Accounts, allowed []string, nodes Nodes) *AgentAccounts {
	return &AgentAccounts{accounts: accounts, allowed: allowed, nodes: nodes, reviews: make(chan struct{}, maxAgentReviews),
		reviewed: map[[sha256.Size]byte]reviewedToken{}}
}

// Node returns the node of the pod that a token is bound to, with the pod's UID if the token names it, or why
// the token is rejected. The error is that of the API server. A token that was reviewed stands for ten
// minutes, but not beyond its end or that of its pod.
func (a *AgentAccounts) Node(ctx context.Context, token string) (node, podUID, why string, err error) {
	digest := sha256.Sum256([]byte(token))
	if node, podUID = a.remembered(digest); node != "" {
		return node, podUID, "", nil
	}
	if err = a.admit(ctx); err != nil {
		return "", "", "", err
	}
	defer func() { <-a.reviews }()
	began := time.Now()
	is, why, err := a.accounts.Authenticate(ctx, token, true)
	if err != nil || why != "" {
		return "", "", why, err
	}
	if account := is.Namespace + "/" + is.Name; is.Namespace == "" || !slices.Contains(a.allowed, account) {
		return "", "", fmt.Sprintf("%s may not report for a node; must be one of agents-accounts, %v", is.User, a.allowed), nil
	}
	if node = a.nodeOf(is); node == "" {
		return "", "", "the token is bound to no pod whose node is known", nil
	}
	a.remember(digest, reviewedToken{node, is.PodUID, earlier(began.Add(rememberToken), claimsOf(token).expires())})
	return node, is.PodUID, "", nil
}

// admit waits until a review may begin.
func (a *AgentAccounts) admit(ctx context.Context) error {
	timer := time.NewTimer(admitAfter + time.Duration(rand.Int64N(int64(admitAfter/3))))
	defer timer.Stop()
	select {
	case a.reviews <- struct{}{}:
		return nil
	case <-timer.C:
		return errManyReviews
	case <-ctx.Done():
		return ctx.Err()
	}
}

// remembered is the node and the pod of a token that stands; empty: it must be reviewed.
func (a *AgentAccounts) remembered(digest [sha256.Size]byte) (node, podUID string) {
	a.mu.Lock()
	r, known := a.reviewed[digest]
	a.mu.Unlock()
	if !known {
		return "", ""
	}
	if time.Now().Before(r.until) && a.nodes.NodeOfUID(r.pod) == r.node {
		return r.node, r.pod
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.reviewed, digest)
	return "", ""
}

// remember has a token stand. Of one that is bound to no pod nobody would see the end.
func (a *AgentAccounts) remember(digest [sha256.Size]byte, r reviewedToken) {
	if r.pod == "" || !time.Now().Before(r.until) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reviewed) >= maxRemembered {
		for other := range a.reviewed {
			delete(a.reviewed, other)
			break
		}
	}
	a.reviewed[digest] = r
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (a *AgentAccounts) nodeOf(is *metric.Principal) string {
	if named := is.Extra[nodeExtra]; len(named) == 1 {
		return named[0]
	}
	if is.PodUID == "" {
		return ""
	}
	return a.nodes.NodeOfUID(is.PodUID)
}
