package customkind

import (
	"maps"
	"slices"
	"sync"
	"unique"

	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// customKinds are the objects of a custom kind of namespaces and of its twin of the cluster, each
// read into a T once per generation. What became of them is reported in their statuses and in
// Events.
type customKinds[T any] struct {
	kinds [2]*customKind[T]
	read  func(*cluster.CustomObject) T
	// forget is told of each T that is read no more, and lacks reports whether one is to be read again though its object
	// is the same.
	forget func(T)
	lacks  func(T) bool
	// apply is called after each change of specs, with all objects of both kinds.
	apply func(all []T)
	event func(on metric.Object, reason, about, message string)

	applying sync.Mutex // held from a look at the objects of both kinds until they are applied

	mu   sync.Mutex        // guards the rest, and what is known of each kind
	told map[string]string // faults in Events, by UID
}

// customKind is one of both kinds.
type customKind[T any] struct {
	resource string // plural
	objects  customObjects
	known    map[string]customObject[T] // by UID
}

// customObject is an object as it was read.
type customObject[T any] struct {
	object *cluster.CustomObject
	read   T
}

// customObjects are the part of cluster.CustomObjects that customKinds need.
type customObjects interface {
	Known() bool
	Unreadable() string
	Report(*cluster.CustomObject, cluster.CustomStatus)
}

// newCustomKinds knows no object. Resources are plurals: of namespaces, of the cluster.
func newCustomKinds[T any](ofNamespaces, ofCluster string,
	event func(on metric.Object, reason, about, message string)) *customKinds[T] {
	return &customKinds[T]{event: event, told: map[string]string{},
		forget: func(T) {}, lacks: func(T) bool { return false },
		kinds: [2]*customKind[T]{newCustomKind[T](ofNamespaces), newCustomKind[T](ofCluster)}}
}

func newCustomKind[T any](resource string) *customKind[T] {
	return &customKind[T]{resource: resource, known: map[string]customObject[T]{}}
}

// watch watches both kinds.
func (c *customKinds[T]) watch(view *cluster.View) {
	for _, kind := range c.kinds {
		kind.objects = view.WatchCustom(kind.resource, func(now []*cluster.CustomObject) { c.changed(kind, now) })
	}
}

// changed takes over the objects of a kind. A status is no change.
func (c *customKinds[T]) changed(kind *customKind[T], now []*cluster.CustomObject) {
	c.applying.Lock()
	defer c.applying.Unlock()
	if all, changed := c.takeOver(kind, now); changed {
		c.apply(all)
	}
}

// takeOver returns all objects of both kinds if one of them is new, has another spec or is gone.
func (c *customKinds[T]) takeOver(kind *customKind[T], now []*cluster.CustomObject) (all []T, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = c.dropGoneLocked(kind, now)
	var lacking []*cluster.CustomObject
	for _, object := range now {
		one, known := kind.known[object.UID]
		if !known {
			one.read, changed = c.read(object), true
		} else if c.lacks(one.read) {
			lacking = append(lacking, object)
		}
		one.object = object
		kind.known[object.UID] = one
	}
	for _, object := range lacking { // after those that have changed, which may have made room or taken it
		one := kind.known[object.UID]
		if c.lacks(one.read) {
			c.forget(one.read)
			one.read, changed = c.read(object), true
			kind.known[object.UID] = one
		}
	}
	if !changed {
		return nil, false
	}
	for _, k := range c.kinds {
		for _, one := range k.known {
			all = append(all, one.read)
		}
	}
	return all, true
}

// isOf reports whether an object has the spec that was read.
func (o customObject[T]) isOf(object *cluster.CustomObject) bool {
	return o.object.Generation == object.Generation && o.object.Fault == object.Fault
}

// dropGoneLocked drops the objects of a kind that are gone or have another spec, before others take their room.
func (c *customKinds[T]) dropGoneLocked(kind *customKind[T], now []*cluster.CustomObject) (dropped bool) {
	there := make(map[string]*cluster.CustomObject, len(now))
	for _, object := range now {
		there[object.UID] = object
	}
	for uid, one := range kind.known {
		if object := there[uid]; object == nil || !one.isOf(object) {
			c.forget(one.read)
			delete(kind.known, uid)
			dropped = true
		}
	}
	return dropped
}

// isNewFaultLocked reports whether an Event has not yet told of a condition. A true one is no
// fault.
func (c *customKinds[T]) isNewFaultLocked(o *cluster.CustomObject, condition *cluster.Condition) bool {
	return !condition.True && c.told[o.UID] != condition.Message
}

// reportLocked sets the status of an object. A new fault is an Event, too: about tells Events
// apart.
func (c *customKinds[T]) reportLocked(kind *customKind[T], o *cluster.CustomObject, status cluster.CustomStatus,
	reason, about string) {
	condition := &status.Conditions[0]
	condition.Message = unique.Make(condition.Message).Value() // many objects have the same fault
	if c.isNewFaultLocked(o, condition) {
		c.event(metric.Object{Resource: kind.resource + ".sluice.dev", Namespace: o.Namespace, Name: o.Name, UID: o.UID},
			reason, about, condition.Message)
	}
	delete(c.told, o.UID)
	if !condition.True {
		c.told[o.UID] = condition.Message
	}
	kind.objects.Report(o, status)
}

// forgetLocked drops what was told of objects that are gone.
func (c *customKinds[T]) forgetLocked() {
	for uid := range c.told {
		if !c.isKnownLocked(uid) {
			delete(c.told, uid)
		}
	}
}

func (c *customKinds[T]) isKnownLocked(uid string) bool {
	for _, k := range c.kinds {
		if _, known := k.known[uid]; known {
			return true
		}
	}
	return false
}

// Listed are the documents of all rules.
func (b *Rulebook) Listed() []inspect.Rule {
	set := b.Set()
	verdicts := set.Verdicts()
	all := make([]inspect.Rule, len(verdicts))
	b.mu.Lock()
	hidden := b.hidden
	b.mu.Unlock()
	for n := range verdicts {
		v := &verdicts[n]
		all[n] = ruleListed(set, v)
		if text := hidden[v.Document.String()]; text != "" {
			all[n].State, all[n].Message = inspect.RulePushed, text
		}
	}
	return all
}

func ruleListed(set *rule.Set, v *rule.Verdict) inspect.Rule {
	d := v.Document
	r := inspect.Rule{Namespace: d.Namespace, Name: d.Name, Metric: d.Spec.Metric, Expression: d.Spec.Value,
		From: slices.Compact(slices.Sorted(maps.Values(d.Spec.Let))), State: string(v.Reason), Message: v.Fault}
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Let)) {
		r.Operands = append(r.Operands, inspect.RuleOperand{Name: name, Metric: d.Spec.Let[name],
			Selector: d.Spec.Selectors[name]})
	}
	if d.Spec.Rename != nil {
		r.Metric, r.From = d.Spec.Rename.To, []string{d.Spec.Rename.From}
	}
	if v.Rule == nil {
		return r
	}
	if last := v.Rule.Last(); last != nil {
		r.Value, r.Time = string(last.Number.Append(nil)), last.Time.UTC()
		r.Of = inspect.Reference{Resource: last.Object.Resource, Namespace: last.Object.Namespace, Name: last.Object.Name}
		r.Asked, r.Renamed = last.Asked, renamedOperands(set, last.Asked, r.Operands)
	}
	return r
}

// renamedOperands are the pushed metrics that operands stand for in a namespace, where renames give them their names.
func renamedOperands(set *rule.Set, namespace string, operands []inspect.RuleOperand) (all []string) {
	for _, o := range operands {
		e := metric.ParseExpression(o.Metric)
		if e.Name = set.PushedName(namespace, e.Name); e.Name != "" {
			all = append(all, e.String())
		}
	}
	return all
}

// ListedPolicy is the document of a policy. Its texts are cut, because a selector may have a megabyte.
func ListedPolicy(p *policy.Policy) inspect.Policy {
	subjects, rules := p.Subjects(), p.Rules()
	one := inspect.Policy{Namespace: p.Namespace, Name: p.Name, SubjectCount: len(subjects),
		Rules: make([]inspect.PolicyRule, len(rules)), State: inspect.PolicyAccepted}
	for _, s := range subjects[:min(len(subjects), inspect.PolicySubjects)] {
		one.Subjects = append(one.Subjects, s.String())
	}
	for n, r := range rules {
		one.Rules[n] = inspect.PolicyRule{Metric: r.Metric, Deny: r.Deny,
			Selector: metric.Truncate(r.Selector, inspect.PolicyText), Fault: metric.Truncate(r.Fault, inspect.PolicyText)}
	}
	for _, fault := range p.Faults {
		one.State, one.Faults = inspect.PolicyFaulty, append(one.Faults, metric.Truncate(fault, inspect.PolicyText))
	}
	return one
}
