package customkind

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
)

// watchedKind are the objects of one kind, as far as a test says.
type watchedKind struct {
	known      bool
	unreadable string
	reports    int
}

func (w *watchedKind) Known() bool                                        { return w.known }
func (w *watchedKind) Unreadable() string                                 { return w.unreadable }
func (w *watchedKind) Report(*cluster.CustomObject, cluster.CustomStatus) { w.reports++ }

// newWatched are policies of both kinds, the cluster's last.
func newWatched() (*Policies, [2]*watchedKind) {
	kinds := [2]*watchedKind{{known: true}, {known: true}}
	p := newPolicies(policy.New(time.Minute), func(metric.Object, string, string, string) {})
	p.kinds[0].objects, p.kinds[1].objects = kinds[0], kinds[1]
	return p, kinds
}

// policyObject is a policy as the API server tells of it.
func policyObject(namespace, name string, generation int64, rules ...policy.Rule) *cluster.CustomObject {
	spec, _ := json.Marshal(policy.Spec{Rules: rules}) //nolint:errchkjson // strings
	return &cluster.CustomObject{Namespace: namespace, Name: name, UID: "u-" + namespace + name, Generation: generation, Created: time.Unix(1e9, 0), Spec: spec}
}

// While this process doesn't know the policies, nobody reads an external metric; the error says which right
// it lacks.
func TestUnreadablePoliciesDeny(t *testing.T) {
	p, kinds := newWatched()
	ask := policy.Request{Namespace: "shop", Expression: metric.ParseExpression("open")}
	none := func(string) (string, bool) { return "", false }
	for _, one := range []struct {
		known      bool
		unreadable [2]string
		says       string // empty: allowed
	}{
		{true, [2]string{}, ""},
		{false, [2]string{}, "has not listed clusterexternalmetricpolicies.sluice.dev so far"},
		{true, [2]string{"", "no right to the cluster's"}, "may not read the policies: no right to the cluster's"},
		{true, [2]string{strings.Repeat("long ", 100), "no right"}, strings.Repeat("long ", 100) + "; no right"},
		{true, [2]string{}, ""},
	} {
		kinds[1].known, kinds[0].unreadable, kinds[1].unreadable = one.known, one.unreadable[0], one.unreadable[1]
		err := p.Check(ask)
		if (err == nil) != (one.says == "") || err != nil && (!strings.Contains(err.Error(), one.says) || !errors.Is(err, metric.ErrNotReady)) {
			t.Errorf("%+v: %v", one, err)
		}
		allowed := one.says == ""
		if p.MayHave("shop", ask.Expression, none, metric.Reader{}) != allowed || p.Hidden("open") == allowed {
			t.Errorf("%+v: a series or a name is shown", one)
		}
		if got := p.Unknown(); (got == nil) != allowed {
			t.Errorf("%+v: the list says %v", one, got)
		}
	}
}

// A status that was written changes nothing: each policy's causes one. Another generation does, and so
// does a policy that is gone.
func TestStatusesOfPoliciesChangeNothing(t *testing.T) {
	p, kinds := newWatched()
	deny := func(metric string) policy.Rule { return policy.Rule{Metric: metric, Deny: true} }
	first, second := policyObject("shop", "first", 1, deny("a")), policyObject("shop", "second", 1, deny("b"))
	changed := func(now ...*cluster.CustomObject) (compiled map[string]*policy.Policy, reports int) {
		kinds[0].reports = 0
		p.changed(p.kinds[0], now)
		compiled = map[string]*policy.Policy{}
		for _, one := range p.set.Policies() {
			compiled[one.Name] = one
		}
		return compiled, kinds[0].reports
	}
	before, _ := changed(first, second)
	written := *second
	written.Status = json.RawMessage(`{"conditions":[]}`)
	if now, reports := changed(first, &written); now["second"] != before["second"] || reports > 0 {
		t.Errorf("a status: compiled again %v, %d reports", now["second"] != before["second"], reports)
	}
	after := policyObject("shop", "second", 2, deny("c"))
	if now, reports := changed(first, after); now["first"] != before["first"] || now["second"] == before["second"] || reports != 2 {
		t.Errorf("another generation: %v of %v, %d reports", now, before, reports)
	}
	again := *after
	again.UID, again.Generation = "another", 2
	if now, _ := changed(first, &again); now["second"] == before["second"] || len(now) != 2 {
		t.Errorf("a policy that was made again: %v", now)
	}
	if now, _ := changed(first); len(now) != 1 {
		t.Errorf("a deleted policy: %v", now)
	}
	if now, _ := changed(); len(now) != 0 {
		t.Errorf("all are deleted: %v", now)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
