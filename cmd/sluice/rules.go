package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
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

// rebuildLocked checks all rules against each other. Unchanged ones are not compiled again.
func (b *rulebook) rebuildLocked() {
	all := make([]rule.Document, 0, len(b.ofFile)+len(b.ofCluster))
	all = append(append(all, b.ofFile...), b.ofCluster...)
	b.Replace(rule.NewSet(all, labelselector.MatchLabels, b.Set()))
}

// readsOf are the bare names of the pushed metrics that a name may be read from: its own, and those of
// a rule's operands.
func (b *rulebook) readsOf(namespace, name string) []string {
	if b == nil {
		return []string{name}
	}
	var all []string
	for _, pushed := range b.Set().Pushed(metric.Query{Namespace: namespace, Expression: metric.Expression{Name: name}}) {
		all = append(all, pushed.Name)
	}
	return all
}
