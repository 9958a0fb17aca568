package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/policy"
)

// policies keeps the set of policies equal to the objects of both kinds in the cluster, and reports
// their faults in their statuses and in Events.
type policies struct {
	set   *policy.Set
	event func(on metric.Object, reason, about, message string)

	mu    sync.Mutex
	kinds [2]*policyKind
	told  map[string]string // faults in Events, by UID
}

// policyKind is one kind of objects. Its CustomObjects call changed.
type policyKind struct {
	resource string // plural
	objects  policyObjects
	known    map[string]knownPolicy // by UID
}

// knownPolicy is a compiled object.
type knownPolicy struct {
	object *cluster.CustomObject
	policy *policy.Policy
}

// policyObjects are the part of cluster.CustomObjects that policies need.
type policyObjects interface {
	Known() bool
	Unreadable() string
	Report(*cluster.CustomObject, cluster.CustomStatus)
}

// watchPolicies watches both kinds.
func (p *dataPath) watchPolicies() *policies {
	view := p.cluster.view
	all := &policies{set: policy.New(p.table.DefaultWindow()), event: view.Event, told: map[string]string{}}
	for i, resource := range []string{"externalmetricpolicies", "clusterexternalmetricpolicies"} {
		one := &policyKind{resource: resource}
		all.kinds[i] = one
		one.objects = view.WatchCustom(resource, func(now []*cluster.CustomObject) { all.changed(one, now) })
	}
	return all
}

// unknown is the error of every request while the cluster may have policies that the set lacks: nobody may
// read an external metric.
func (p *policies) unknown() error {
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
		return nil
	}
	return &metric.QueryError{Is: metric.ErrNotReady, Message: "Sluice gives out no external metric, because it may not read the policies: " +
		strings.Join(missing, "; ")}
}

// Check implements policy.Checker.
func (p *policies) Check(r policy.Request) error {
	if err := p.unknown(); err != nil {
		return err
	}
	return p.set.Check(r)
}

// MayHave implements policy.Checker.
func (p *policies) MayHave(namespace string, e metric.Expression, lookup func(key string) (string, bool), reader metric.Reader) bool {
	return p.unknown() == nil && p.set.MayHave(namespace, e, lookup, reader)
}

// Hidden implements adapter.Policies.
func (p *policies) Hidden(name string) bool { return p.unknown() != nil || p.set.Hidden(name) }

// Governs implements policy.Checker.
func (p *policies) Governs(namespace string, e metric.Expression) bool {
	return p.unknown() != nil || p.set.Governs(namespace, e)
}

// readable is what a reader of the console may have.
func (p *policies) readable(reader metric.Reader) inspect.Readable {
	return policy.Leave{Policies: p, Reader: reader}
}

// changed compiles the policies that are new. A status is no change: it leaves the set with its verdicts.
func (p *policies) changed(kind *policyKind, now []*cluster.CustomObject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := len(now) == len(kind.known)
	known := make(map[string]knownPolicy, len(now))
	for _, object := range now {
		one := kind.known[object.UID]
		if one.object == nil || one.object.Generation != object.Generation {
			one.policy, same = compilePolicy(object), false
		}
		one.object = object
		known[object.UID] = one
	}
	if kind.known = known; same {
		return
	}
	p.told = p.stillTold()
	var every []*policy.Policy
	for _, k := range p.kinds {
		for _, one := range k.known {
			every = append(every, one.policy)
		}
	}
	p.set.Replace(every)
	faults := map[policy.Meta][]string{}
	for _, one := range p.set.Policies() {
		faults[one.Meta] = one.Faults
	}
	for _, k := range p.kinds {
		for _, one := range k.known {
			p.report(k, one.object, faults[one.policy.Meta])
		}
	}
}

// stillTold drops what was told of policies that are gone.
func (p *policies) stillTold() map[string]string {
	told := map[string]string{}
	for _, k := range p.kinds {
		for uid := range k.known {
			if text, ok := p.told[uid]; ok {
				told[uid] = text
			}
		}
	}
	return told
}

// compilePolicy compiles an object. One whose spec cannot be decoded denies everything.
func compilePolicy(of *cluster.CustomObject) *policy.Policy {
	meta := policy.Meta{Namespace: of.Namespace, Name: of.Name, Created: of.Created}
	var spec policy.Spec
	if err := json.Unmarshal(of.Spec, &spec); err != nil {
		return policy.Unreadable(meta, err)
	}
	return policy.Compile(meta, spec)
}

// report says whether a policy is as its author meant it.
func (p *policies) report(kind *policyKind, of *cluster.CustomObject, faults []string) {
	condition := cluster.Condition{Type: "Accepted", True: true, Reason: "Compiled", Message: "the policy is in force"}
	if len(faults) > 0 {
		condition = cluster.Condition{Type: "Accepted", Reason: "Faulty",
			Message: fmt.Sprintf("what the policy names is denied until this is mended: %s", strings.Join(faults, "; "))}
	}
	if !condition.True && p.told[of.UID] != condition.Message {
		p.event(metric.Object{Resource: kind.resource + ".sluice.dev", Namespace: of.Namespace, Name: of.Name, UID: of.UID},
			"FaultyPolicy", fmt.Sprint(of.Generation), condition.Message)
	}
	p.told[of.UID] = condition.Message
	kind.objects.Report(of, cluster.CustomStatus{Conditions: []cluster.Condition{condition}})
}
