package main

import (
	"fmt"

	"github.com/sluice-metrics/sluice/aggregate"
)

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
