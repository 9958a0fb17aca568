package customkind

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
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
		if p.MayHave("shop", []metric.Expression{ask.Expression}, none, metric.Reader{}) != allowed || p.Hidden("open", false) == allowed {
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

// hungry is a rule that takes a megabyte, in 20 bytes.
func hungry(name string) policy.Rule {
	return policy.Rule{Metric: name + `(\pL{30})`, Deny: true}
}

// verdicts of the policies of a namespace, by whether they are as their author wrote them.
func (p *Policies) verdicts(namespace string) (accepted, faulty int) {
	for _, one := range p.List() {
		switch {
		case one.Namespace != namespace:
		case len(one.Faults) > 0:
			faulty++
		default:
			accepted++
		}
	}
	return accepted, faulty
}

// A namespace with any number of small policies that take much memory does not fill the process, and leaves room to others.
// Those without room deny what they may mean; they count when there is room again.
func TestPoliciesOfOneNamespaceLeaveRoom(t *testing.T) {
	p, _ := newWatched()
	var all []*cluster.CustomObject
	for i := range 400 {
		all = append(all, policyObject("flood", fmt.Sprintf("p%03d", i), 1, hungry(fmt.Sprint("queue", i))))
	}
	before := heap()
	p.changed(p.kinds[0], all)
	if took := heap() - before; took > maxPolicies {
		t.Errorf("one namespace takes %d MiB", took>>20)
	}
	accepted, faulty := p.verdicts("flood")
	if held := p.room.Of("flood"); held > freePolicies+maxPolicies*3/4 || accepted == 0 || faulty == 0 {
		t.Errorf("%d policies take %d MiB, %d have no room", accepted, held>>20, faulty)
	}
	ask := policy.Request{Namespace: "flood", Expression: metric.ParseExpression("other")}
	if err := p.Check(ask); err == nil || !strings.Contains(err.Error(), "leave no room for it; must be fewer or smaller") {
		t.Errorf("a policy without room allows: %v", err)
	}
	shop := policyObject("shop", "guard", 1, hungry("secret"))
	p.changed(p.kinds[0], append(all, shop))
	ask.Namespace = "shop"
	if accepted, faulty := p.verdicts("shop"); accepted != 1 || faulty != 0 || p.Check(ask) != nil {
		t.Errorf("of another namespace %d policies count, %d have no room: %v", accepted, faulty, p.Check(ask))
	}
	p.changed(p.kinds[1], []*cluster.CustomObject{policyObject("", "wide", 1, hungry("hidden"))})
	if accepted, _ := p.verdicts(""); accepted != 1 {
		t.Error("no room for a policy of the cluster")
	}
	few := all[len(all)-accepted:]
	p.changed(p.kinds[0], few)
	if now, faulty := p.verdicts("flood"); now != len(few) || faulty != 0 {
		t.Errorf("of %d that are left %d count, and %d have no room", len(few), now, faulty)
	}
	if p.changed(p.kinds[0], nil); p.room.Held() != 0 {
		t.Errorf("%d bytes are taken by no policies", p.room.Held())
	}
}

// compiledNow is the number of rules of namespaces that were compiled.
func (p *Policies) compiledNow() (n int) {
	for _, one := range p.kinds[0].known {
		n += one.read.Compiled()
	}
	return n
}

// A namespace has as many rules compiled as count, however many policies it has; those of others are compiled.
func TestPoliciesBeyondTheRulesAreNotCompiled(t *testing.T) {
	p, _ := newWatched()
	rules := make([]policy.Rule, 64)
	for i := range rules {
		rules[i] = policy.Rule{Metric: fmt.Sprint("queue", i), Deny: true}
	}
	var all []*cluster.CustomObject
	for i := range 100 {
		all = append(all, policyObject("flood", fmt.Sprintf("p%03d", i), 1, rules...))
	}
	p.changed(p.kinds[0], append(all, policyObject("shop", "guard", 1, rules...)))
	state := func(wantAccepted, wantFaulty int) {
		t.Helper()
		compiled := p.compiledNow()
		accepted, faulty := p.verdicts("flood")
		of, _ := p.verdicts("shop")
		if accepted != wantAccepted || faulty != wantFaulty || of != 1 || compiled != 64*(wantAccepted+1) {
			t.Errorf("%d policies count, %d don't, %d rules are compiled; want %d and %d", accepted, faulty, compiled, wantAccepted, wantFaulty)
		}
	}
	state(16, 84)
	err := p.Check(policy.Request{Namespace: "flood", Expression: metric.ParseExpression("other")})
	if err == nil || !strings.Contains(err.Error(), "more than 1024 together with those of") {
		t.Errorf("a policy that is not compiled allows: %v", err)
	}
	p.changed(p.kinds[0], append(all[10:], policyObject("shop", "guard", 1, rules...)))
	state(16, 74)
	small := slices.Concat(all[10:25], []*cluster.CustomObject{policyObject("flood", "p026", 1, rules...), policyObject("flood", "z-last", 1, rules...),
		policyObject("shop", "guard", 1, rules...)})
	p.changed(p.kinds[0], small)
	if _, faulty := p.verdicts("flood"); faulty == 0 {
		t.Error("17 policies of 64 rules count")
	}
	small[16] = policyObject("flood", "z-last", 2, rules[:32]...) // whichever has room, the sum is what may be
	small[15] = policyObject("flood", "p026", 2, rules[:32]...)
	p.changed(p.kinds[0], small)
	if _, faulty := p.verdicts("flood"); faulty != 0 {
		t.Errorf("%d policies don't count where others were shortened", faulty)
	}
	p.changed(p.kinds[0], append(all[90:], policyObject("shop", "guard", 1, rules...)))
	state(10, 0)
	if p.changed(p.kinds[0], nil); len(p.compiled) != 0 {
		t.Errorf("rules of no policies: %v", p.compiled)
	}
}

// Policies without room in memory were compiled as well.
func TestPoliciesWithoutRoomCountAsCompiled(t *testing.T) {
	p, _ := newWatched()
	var all []*cluster.CustomObject
	for i := range 2000 {
		all = append(all, policyObject("flood", fmt.Sprintf("p%04d", i), 1, hungry(fmt.Sprint("queue", i))))
	}
	p.changed(p.kinds[0], all)
	if compiled := p.compiledNow(); compiled != policy.MaxRulesTogether {
		t.Errorf("%d rules were compiled", compiled)
	}
}

// A spec that is not kept denies, and the status says why. It counts when it is kept again, of the same generation.
func TestSpecsThatAreNotKeptDeny(t *testing.T) {
	p, _ := newWatched()
	kept := policyObject("shop", "p", 1, policy.Rule{Metric: "secret", Deny: true})
	without := *kept
	without.Spec, without.Fault = nil, "it has 70000 bytes in JSON; must have at most 65536"
	ask := policy.Request{Namespace: "shop", Expression: metric.ParseExpression("open")}
	for _, one := range []struct {
		object *cluster.CustomObject
		says   string
	}{{kept, ""}, {&without, "spec cannot be read: it has 70000 bytes in JSON; must have at most 65536"}, {kept, ""}} {
		p.changed(p.kinds[0], []*cluster.CustomObject{one.object})
		if err := p.Check(ask); (err == nil) != (one.says == "") || err != nil && !strings.Contains(err.Error(), one.says) {
			t.Errorf("want %q: %v", one.says, err)
		}
	}
	for generation := range int64(3) { // nothing is given back that was not taken
		changed := without
		changed.Generation = generation
		p.changed(p.kinds[0], []*cluster.CustomObject{&changed})
	}
	if p.changed(p.kinds[0], nil); p.room.Of("shop") != 0 || p.room.Held() != 0 {
		t.Errorf("%d bytes are taken by no policies", p.room.Of("shop"))
	}
	if d := ruleDocument(&without); d.Fault != "spec cannot be read: "+without.Fault {
		t.Errorf("a rule: %q", d.Fault)
	}
}

// Small objects take no more than package cluster counts for them here, and those without room much less: they are as many as
// the API server takes.
func TestSmallObjectsTakeWhatTheyCount(t *testing.T) {
	const number, counted = 10_000, 2048
	noRoom := "the objects of its namespace leave no room for it; must be fewer or smaller: delete some, then change this one"
	rules := func(all []*cluster.CustomObject) any {
		r := newReported(t)
		r.customKinds.event = func(metric.Object, string, string, string) {}
		r.kinds[0].objects = reportFunc(func(*cluster.CustomObject, cluster.CustomStatus) {})
		r.changed(r.kinds[0], all)
		return r
	}
	policies := func(all []*cluster.CustomObject) any {
		p := newPolicies(policy.New(time.Minute), func(metric.Object, string, string, string) {})
		p.kinds[0].objects = reportFunc(func(*cluster.CustomObject, cluster.CustomStatus) {})
		p.changed(p.kinds[0], all)
		return p
	}
	for name, one := range map[string]struct {
		read        func([]*cluster.CustomObject) any
		spec, fault string
		most        int64
	}{
		"policies":              {policies, `{"rules":[{"metric":"x","deny":true}]}`, "", counted},
		"policies without room": {policies, "", noRoom, counted / 4},
		"rules":                 {rules, `{"metric":"x","let":{"x":"y"},"value":"x"}`, "", counted},
		"faulty rules":          {rules, `{"metric":"x","let":{"x":"y"},"value":"x / 2"}`, "", counted},
		"rules without room":    {rules, "", noRoom, counted * 2 / 5},
	} {
		t.Run(name, func(t *testing.T) {
			all := make([]*cluster.CustomObject, number)
			for i := range all {
				name := fmt.Sprintf("object-%05d", i)
				all[i] = &cluster.CustomObject{Namespace: "shop", Name: name, UID: "uid-of-" + name, Generation: 1, Spec: []byte(one.spec),
					Fault: one.fault, Created: time.Unix(int64(i), 0)}
			}
			before := heap()
			known := one.read(all)
			if each := (heap() - before) / number; each > one.most {
				t.Errorf("each takes %d bytes; want %d at most", each, one.most)
			}
			runtime.KeepAlive(known)
			runtime.KeepAlive(all)
		})
	}
}

// The faults of a policy, which may have 64, fit a status.
func TestFaultsInAStatusAreBounded(t *testing.T) {
	r := map[string]cluster.CustomStatus{}
	p, _ := newWatched()
	p.kinds[0].objects = reportFunc(func(o *cluster.CustomObject, status cluster.CustomStatus) { r[o.Name] = status })
	var rules []policy.Rule
	for range 64 {
		rules = append(rules, policy.Rule{Metric: strings.Repeat("\x01", 128)})
	}
	p.changed(p.kinds[0], []*cluster.CustomObject{policyObject("shop", "p", 1, rules...)})
	if n := len(r["p"].Conditions[0].Message); n < 500 || n > 1024 {
		t.Errorf("a message of %d bytes", n)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // frees what package regexp pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
