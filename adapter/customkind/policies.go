package customkind

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// Policies keeps the set of policies equal to the objects of both kinds in the cluster, and reports
// their faults.
type Policies struct {
	*customKinds[*policy.Policy]
	set  *policy.Set
	room *fair.Room[string, int64] // of the policies of namespaces
	// compiled is the number of rules of each namespace that took time to compile; only read and forget write it.
	compiled map[string]int
	// reconciled reports whether the restored data are those of the namespaces that exist now.
	reconciled func() bool
}

func newPolicies(set *policy.Set, event func(on metric.Object, reason, about, message string)) *Policies {
	p := &Policies{customKinds: newCustomKinds[*policy.Policy]("externalmetricpolicies", "clusterexternalmetricpolicies",
		event), set: set, room: fair.NewRoomBeyond[string](int64(freePolicies), maxPolicies),
		compiled: map[string]int{}, reconciled: func() bool { return true }}
	p.read, p.forget, p.lacks, p.apply = p.compile, p.giveBack, p.hasRoomFor, p.replace
	return p
}

// WatchPolicies keeps a set equal to the policies of a cluster. reconciled reports whether the restored data are
// those of the namespaces that exist now.
func WatchPolicies(view *cluster.View, set *policy.Set, reconciled func() bool) *Policies {
	all := newPolicies(set, view.Event)
	all.reconciled = reconciled
	all.watch(view)
	return all
}

// List returns the policies.
func (p *Policies) List() []*policy.Policy { return p.set.Policies() }

// Unknown is the error of every request while the cluster may have policies that the set lacks: nobody may
// read an external metric.
func (p *Policies) Unknown() error {
	for _, k := range p.kinds {
		if !k.objects.Known() {
			return metric.NotReadyf("the policies of external metrics are not known yet: the API server has not listed %s.sluice.dev so far", k.resource)
		}
	}
	missing := p.missing()
	if missing == nil {
		if !p.reconciled() {
			return metric.NotReadyf("the namespaces of external metrics are not known yet: Sluice is reading the cluster")
		}
		return nil
	}
	return &metric.QueryError{Is: metric.ErrNotReady,
		Message: "Sluice gives out no external metric, because it may not read the policies: " +
			strings.Join(missing, "; ")}
}

// missing are the rights that Sluice lacks to read the policies.
func (p *Policies) missing() (missing []string) {
	for _, k := range p.kinds {
		if why := k.objects.Unreadable(); why != "" {
			missing = append(missing, why)
		}
	}
	return missing
}

// Check implements policy.Checker.
func (p *Policies) Check(r policy.Request) error {
	if err := p.Unknown(); err != nil {
		return err
	}
	return p.set.Check(r)
}

// MayHave implements policy.Checker.
func (p *Policies) MayHave(namespace string, all []metric.Expression, lookup func(key string) (string, bool),
	reader metric.Reader) bool {
	return p.Unknown() == nil && p.set.MayHave(namespace, all, lookup, reader)
}

// Hidden implements adapter.Policies.
func (p *Policies) Hidden(name string, forwarded bool) bool {
	return p.Unknown() != nil || p.set.Hidden(name, forwarded)
}

// Governs implements policy.Checker. Policies that may not be read are taken for some that name everything.
func (p *Policies) Governs(namespace string, e metric.Expression) (bool, error) {
	if p.missing() != nil {
		return true, nil
	}
	if err := p.Unknown(); err != nil {
		return true, err
	}
	return p.set.Governs(namespace, e)
}

// Readable is what a reader of the console may have.
func (p *Policies) Readable(reader metric.Reader) inspect.Readable {
	return policy.ReaderView{Policies: p, Reader: reader}
}

// replace replaces the set, and reports on each policy: new ones may put others above a bound.
func (p *Policies) replace(all []*policy.Policy) {
	p.set.Replace(all)
	faults := map[policy.Meta][]string{}
	for _, one := range p.set.Policies() {
		faults[one.Meta] = one.Faults
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked()
	for _, k := range p.kinds {
		for _, c := range k.known {
			p.reportPolicyLocked(k, c.object, faults[c.read.Meta])
		}
	}
}

// Bounds of the memory of policies: of each namespace what is free, and beyond it what all may take together, of which one
// has at most three times what is left. Only administrators write those of the cluster, which take none of it.
const (
	freePolicies = 1 << 20
	maxPolicies  = 64 << 20
)

// compile compiles an object. One for which there is no room denies everything. One of a namespace that has as many rules
// as count is not compiled: nobody reads an external metric before all policies are.
func (p *Policies) compile(o *cluster.CustomObject) *policy.Policy {
	meta, spec, err := readPolicy(o)
	switch {
	case err != nil:
		return policy.Unreadable(meta, err)
	case o.Namespace != "" && !p.mayCompile(o.Namespace, len(spec.Rules)):
		return policy.Uncompiled(meta, len(spec.Rules))
	}
	one := policy.Compile(meta, spec)
	if one.Namespace == "" {
		return one
	}
	p.compiled[one.Namespace] += one.Compiled()
	if !p.room.Take(one.Namespace, one.Size()) {
		return one.WithoutRoom()
	}
	return one
}

func (p *Policies) mayCompile(namespace string, rules int) bool {
	return p.compiled[namespace]+rules <= policy.MaxRulesTogether
}

func (p *Policies) giveBack(one *policy.Policy) {
	if one.Namespace == "" {
		return
	}
	p.room.Give(one.Namespace, one.Size())
	if p.compiled[one.Namespace] -= one.Compiled(); p.compiled[one.Namespace] == 0 {
		delete(p.compiled, one.Namespace)
	}
}

// hasRoomFor reports whether there is room for a policy that had none.
func (p *Policies) hasRoomFor(one *policy.Policy) bool {
	bytes, rules := one.Lacks()
	if rules > 0 {
		return p.mayCompile(one.Namespace, rules)
	}
	if bytes == 0 || !p.room.Take(one.Namespace, bytes) {
		return false
	}
	p.room.Give(one.Namespace, bytes)
	return true
}

// readPolicy reads an object. The error says that its spec is not kept, or cannot be decoded.
func readPolicy(o *cluster.CustomObject) (policy.Meta, policy.Spec, error) {
	var spec policy.Spec
	meta := policy.Meta{Namespace: o.Namespace, Name: o.Name, Created: o.Created}
	if o.Fault != "" {
		return meta, spec, errors.New(o.Fault)
	}
	return meta, spec, json.Unmarshal(o.Spec, &spec)
}

// maxFaults bounds the faults in a status, which is kept.
const maxFaults = 900 // bytes

// reportPolicyLocked says whether a policy is as its author meant it.
func (p *Policies) reportPolicyLocked(kind *customKind[*policy.Policy], o *cluster.CustomObject, faults []string) {
	condition := cluster.Condition{Type: "Accepted", True: true, Reason: "Compiled", Message: "the policy is in force"}
	if len(faults) > 0 {
		condition = cluster.Condition{Type: "Accepted", Reason: "Faulty",
			Message: "what the policy names is denied until this is mended: " + metric.Truncate(strings.Join(faults, "; "), maxFaults)}
	}
	p.reportLocked(kind, o, cluster.CustomStatus{Conditions: []cluster.Condition{condition}}, "FaultyPolicy",
		fmt.Sprint(o.Generation))
}
