package adapter

import (
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
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
