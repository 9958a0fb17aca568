package adapter

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// AgentAccounts finds out which node an agent's token is of.
type AgentAccounts struct {
	accounts *Accounts
	allowed  []string // namespace/serviceaccount
	nodes    Nodes
}

// Nodes knows the nodes of pods.
type Nodes interface {
	// NodeOfUID returns the name of a pod's node; empty: it is not known.
	NodeOfUID(uid string) string
}

// NewAgentAccounts returns the accounts of agents, which have one of some service accounts.
func NewAgentAccounts(accounts *Accounts, allowed []string, nodes Nodes) *AgentAccounts {
	return &AgentAccounts{accounts, allowed, nodes}
}

// Node returns the node of the pod that a token is bound to, with the pod's UID if the token names it, or why the token is rejected.
// The error is that of the API server.
func (a *AgentAccounts) Node(ctx context.Context, token string) (node, podUID, why string, err error) {
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
	return node, is.PodUID, "", nil
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
