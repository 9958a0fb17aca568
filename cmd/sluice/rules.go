package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/reading"
	"github.com/sluice-metrics/sluice/rule"
)

// rulebook holds the present rules: those of rules-file and, in a cluster, MetricRules.
type rulebook struct {
	rule.Current
	log     *slog.Logger
	changed func() // called after each change; nil: nobody waits for it
	// review is told of the rules after each change and at intervals, with those whose metric is
	// pushed, by UID. Only run calls it. nil: there is no cluster.
	review func(set *rule.Set, hidden map[string]string)
	// pushed says of which objects a metric is pushed in a namespace (empty: in any); empty: of none.
	pushed func(namespace, name string) string
	// anyPushed returns those of some names that are pushed in any namespace. pushed looks at all metrics,
	// so it is only asked about these.
	anyPushed func(names map[string]bool) map[string]bool

	file string        // empty: none
	look chan struct{} // of capacity 1: asks run to look for pushed metrics

	mu                sync.Mutex // guards the rest
	ofFile, ofCluster []rule.Document
	stamp             fileStamp
	hidden            map[string]string // what was logged of rules whose metric is pushed, by rule
}

// fileStamp tells versions of a file apart without reading it.
type fileStamp struct {
	modified time.Time
	size     int64
	fault    string
}

func newRulebook(file string, log *slog.Logger) (*rulebook, error) {
	b := &rulebook{file: file, log: log, look: make(chan struct{}, 1)}
	if file == "" {
		return b, nil
	}
	b.stamp = b.stampOf()
	documents, err := readRules(file)
	if err != nil {
		return nil, err
	}
	b.ofFile = documents
	b.rebuildLocked()
	return b, nil
}

// readRules reads a file of rules. The error has all faults.
func readRules(file string) ([]rule.Document, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents, err := rule.Parse(file, text)
	if err = errors.Join(err, rule.NewSet(documents, adapter.MatchLabels, nil).Faults()); err != nil {
		return nil, err
	}
	return documents, nil
}

func (b *rulebook) stampOf() fileStamp {
	found, err := os.Stat(b.file)
	if err != nil {
		return fileStamp{fault: err.Error()}
	}
	return fileStamp{modified: found.ModTime(), size: found.Size()}
}

// Intervals of looks: at rules-file, and for pushed metrics of the names of rules.
const (
	rulesPoll   = 2 * time.Second
	rulesReview = 10 * time.Second
)

// run looks for pushed metrics of the names of rules, at once and then at intervals, and reads rules-file
// again when it changes, until ctx ends. The table is restored before.
func (b *rulebook) run(ctx context.Context) error {
	tick, review := time.NewTicker(rulesPoll), time.NewTicker(rulesReview)
	defer tick.Stop()
	defer review.Stop()
	for b.lookForPushed(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if b.file != "" {
				b.reread()
			}
		case <-b.look:
			b.lookForPushed()
		case <-review.C:
			b.lookForPushed()
		}
	}
}

// lookSoon asks run to look for pushed metrics. It never blocks.
func (b *rulebook) lookSoon() {
	select {
	case b.look <- struct{}{}:
	default: // it will look anyway, at the present rules
	}
}

// reread reads rules-file if it changed. A file with a fault changes nothing.
func (b *rulebook) reread() {
	stamp := b.stampOf()
	b.mu.Lock()
	same := stamp == b.stamp
	b.stamp = stamp
	b.mu.Unlock()
	if same {
		return
	}
	documents, err := readRules(b.file)
	if err != nil {
		b.log.Error("rules-file is invalid; the rules of before stay", "file", b.file, "faults", err)
		return
	}
	b.log.Info("read rules-file again", "file", b.file, "rules", len(documents))
	b.replace(func() { b.ofFile = documents })
}

// SetClusterRules replaces the rules of the cluster.
func (b *rulebook) SetClusterRules(documents []rule.Document) {
	b.replace(func() { b.ofCluster = documents })
}

func (b *rulebook) replace(change func()) {
	b.mu.Lock()
	change()
	b.rebuildLocked()
	b.mu.Unlock()
	if b.changed != nil {
		b.changed()
	}
	b.lookSoon()
}

// lookForPushed looks for pushed metrics of the names of rules: they answer instead of the rules. Only
// run calls it.
func (b *rulebook) lookForPushed() {
	set := b.Set()
	if b.pushed == nil || set == nil {
		return
	}
	names := map[string]bool{}
	for _, v := range set.Verdicts() {
		if v.Rule != nil && v.Rule.Metric() != "" {
			names[v.Rule.Metric()] = true
		}
	}
	if len(names) > 0 {
		names = b.anyPushed(names)
	}
	ofUID, now := map[string]string{}, map[string]string{}
	for _, v := range set.Verdicts() {
		if v.Rule == nil || !names[v.Rule.Metric()] {
			continue
		}
		where := b.pushed(v.Document.Namespace, v.Rule.Metric())
		if where == "" {
			continue
		}
		text := fmt.Sprintf("the metric %q is pushed %s, and the pushed metric answers there; must be another name", v.Rule.Metric(), where)
		ofUID[v.Document.UID], now[v.Document.String()] = text, text
	}
	b.mu.Lock()
	before := b.hidden
	b.hidden = now
	b.mu.Unlock()
	for of, text := range now {
		if before[of] == "" {
			b.log.Warn("a rule does not hold everywhere", "rule", of, "fault", text)
		}
	}
	if b.review != nil {
		b.review(set, ofUID)
	}
}

// pushedSomewhere is rulebook.pushed.
func (p *dataPath) pushedSomewhere(namespace, name string) string {
	list, _, _ := p.merged.Metrics(aggregate.Part{Namespace: namespace, Name: name, Most: 1})
	if len(list) == 0 {
		return ""
	}
	where := ofResource(list[0].Resource)
	if list[0].Namespace != "" {
		where += fmt.Sprintf(" in %q", list[0].Namespace)
	}
	return where
}

// rebuildLocked checks all rules against each other. Unchanged ones are not compiled again.
func (b *rulebook) rebuildLocked() {
	all := make([]rule.Document, 0, len(b.ofFile)+len(b.ofCluster))
	all = append(append(all, b.ofFile...), b.ofCluster...)
	b.Replace(rule.NewSet(all, adapter.MatchLabels, b.Set()))
}

// limitRules are the limits of a cluster view, where an autoscaler that names the metric of a rule
// names its operands.
type limitRules struct {
	*cluster.View
	rules *rulebook
}

// NamedByAutoscaler implements limit.Rules. Operands on pods may be read through other objects.
func (l limitRules) NamedByAutoscaler(namespace, resource, name string) bool {
	if l.View.NamedByAutoscaler(namespace, resource, name) {
		return true
	}
	return l.rules.Set().NamesFor(namespace, name, func(read string) bool {
		return l.View.NamedByAutoscaler(namespace, resource, read) ||
			resource == "pods" && l.View.NamedByAutoscaler(namespace, "deployments.apps", read)
	})
}

// rulesChanged has limits and autoscalers looked at again.
func (c *clusterSide) rulesChanged() {
	last := ""
	for _, a := range c.view.Autoscalers("") {
		if a.Namespace != last {
			last = a.Namespace
			c.limits.AutoscalersChanged(last)
		}
	}
	c.autoscalers.Changed()
}

// watches are the watches of a query: of the metric, of the operands if a rule computes it, and of
// the pods' metrics if they may be rolled up.
func (b *rulebook) watches(among *aggregate.Watches, q metric.Query, changed func()) (all []*aggregate.Watch) {
	for _, expression := range b.Set().Pushed(q) {
		of := q
		of.Expression = expression
		all = append(all, among.Watch(of, changed))
		if reading.MayRollUp(&of) {
			of.Resource, of.Object = "pods", adapter.AllObjects
			all = append(all, among.Watch(of, changed))
		}
	}
	return all
}

// readsOf are the bare names of the pushed metrics that a name may be read from: its own, and those of
// a rule's operands.
func (b *rulebook) readsOf(namespace, name string) []string {
	if b == nil {
		return []string{name}
	}
	var all []string
	for _, one := range b.Set().Pushed(metric.Query{Namespace: namespace, Expression: metric.Expression{Name: name}}) {
		all = append(all, one.Name)
	}
	return all
}

// Rules implements inspect.Source.
func (i inspection) Rules(q inspect.Query) inspect.Page[inspect.Rule] {
	var all []inspect.Rule
	if i.rules != nil {
		all = i.rules.listed()
	}
	return inspect.Paged(q, all, func(r *inspect.Rule) (namespace, name string, key inspect.Key) {
		return r.Namespace, r.Name, inspect.Key{r.Namespace, r.Name}
	})
}

// listed are the documents of all rules.
func (b *rulebook) listed() []inspect.Rule {
	verdicts := b.Set().Verdicts()
	all := make([]inspect.Rule, len(verdicts))
	b.mu.Lock()
	hidden := b.hidden
	b.mu.Unlock()
	for n := range verdicts {
		v := &verdicts[n]
		all[n] = ruleListed(v)
		if text := hidden[v.Document.String()]; text != "" {
			all[n].State, all[n].Message = inspect.RulePushed, text
		}
	}
	return all
}

func ruleListed(v *rule.Verdict) inspect.Rule {
	d := v.Document
	one := inspect.Rule{Namespace: d.Namespace, Name: d.Name, Metric: d.Spec.Metric, Expression: d.Spec.Value,
		From: slices.Compact(slices.Sorted(maps.Values(d.Spec.Let))), State: string(v.Reason), Message: v.Fault}
	for _, name := range slices.Sorted(maps.Keys(d.Spec.Let)) {
		one.Operands = append(one.Operands, inspect.RuleOperand{Name: name, Metric: d.Spec.Let[name], Selector: d.Spec.Selectors[name]})
	}
	if d.Spec.Rename != nil {
		one.Metric, one.From = d.Spec.Rename.To, []string{d.Spec.Rename.From}
	}
	if v.Rule == nil {
		return one
	}
	if last := v.Rule.Last(); last != nil {
		one.Value, one.Time = string(last.Number.Append(nil)), last.Time.UTC()
		one.Of = inspect.Reference{Resource: last.Object.Resource, Namespace: last.Object.Namespace, Name: last.Object.Name}
	}
	return one
}
