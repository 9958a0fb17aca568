package customkind

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
)

// Policies keeps the set of policies equal to the objects of both kinds in the cluster, and reports
// their faults.
type Policies struct {
	*customKinds[*policy.Policy]
	set *policy.Set
	// reconciled reports whether the restored data are those of the namespaces that exist now.
	reconciled func() bool
}

func newPolicies(set *policy.Set, event func(on metric.Object, reason, about, message string)) *Policies {
	p := &Policies{customKinds: newCustomKinds[*policy.Policy]("externalmetricpolicies", "clusterexternalmetricpolicies",
		event), set: set,
		reconciled: func() bool { return true }}
	p.read, p.apply = compilePolicy, p.replace
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
	var missing []string
	for _, k := range p.kinds {
		if !k.objects.Known() {
			return metric.NotReadyf("the policies of external metrics are not known yet: the API server has not listed %s.sluice.dev so far", k.resource)
		}
		if why := k.objects.Unreadable(); why != "" {
			missing = append(missing, why)
		}
	}
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

// Check implements policy.Checker.
func (p *Policies) Check(r policy.Request) error {
	if err := p.Unknown(); err != nil {
		return err
	}
	return p.set.Check(r)
}

// MayHave implements policy.Checker.
func (p *Policies) MayHave(namespace string, e metric.Expression, lookup func(key string) (string, bool),
	reader metric.Reader) bool {
	return p.Unknown() == nil && p.set.MayHave(namespace, e, lookup, reader)
}

// Hidden implements adapter.Policies.
func (p *Policies) Hidden(name string) bool { return p.Unknown() != nil || p.set.Hidden(name) }

// Governs implements policy.Checker.
func (p *Policies) Governs(namespace string, e metric.Expression) bool {
	return p.Unknown() != nil || p.set.Governs(namespace, e)
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

// compilePolicy compiles an object. One whose spec cannot be decoded denies everything.
func compilePolicy(o *cluster.CustomObject) *policy.Policy {
	meta := policy.Meta{Namespace: o.Namespace, Name: o.Name, Created: o.Created}
	var spec policy.Spec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return policy.Unreadable(meta, err)
	}
	return policy.Compile(meta, spec)
}

// reportPolicyLocked says whether a policy is as its author meant it.
func (p *Policies) reportPolicyLocked(kind *customKind[*policy.Policy], o *cluster.CustomObject, faults []string) {
	condition := cluster.Condition{Type: "Accepted", True: true, Reason: "Compiled", Message: "the policy is in force"}
	if len(faults) > 0 {
		condition = cluster.Condition{Type: "Accepted", Reason: "Faulty",
			Message: fmt.Sprintf("what the policy names is denied until this is mended: %s", strings.Join(faults, "; "))}
	}
	p.reportLocked(kind, o, cluster.CustomStatus{Conditions: []cluster.Condition{condition}}, "FaultyPolicy",
		fmt.Sprint(o.Generation))
}
