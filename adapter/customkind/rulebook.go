package customkind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// Name is the name of a metric in a namespace; empty: in any.
type Name struct{ Namespace, Metric string }

// Rulebook holds the present rules: those of rules-file and, in a cluster, MetricRules.
type Rulebook struct {
	rule.Current
	log     *slog.Logger
	Changed func() // called after each change; nil: nobody waits for it
	// review is told of the rules after each change and at intervals, with those whose metric is
	// pushed, by UID. Only Run calls it. nil: there is no cluster.
	review func(set *rule.Set, hidden map[string]string)
	// Pushed says of which objects a metric of each name is pushed that is asked for; of none: the name is left out.
	// It looks at all metrics.
	Pushed func(asked map[Name]bool) map[Name]string

	file string        // empty: none
	look chan struct{} // of capacity 1: asks Run to look for pushed metrics

	mu                sync.Mutex // guards the rest
	ofFile, ofCluster []rule.Document
	stamp             fileStamp
	hidden            map[string]string // what was logged of rules whose metric is pushed, by rule
}

// NewRulebook reads a file of rules; empty: there is none. Pushed is set before Run.
func NewRulebook(file string, log *slog.Logger) (*Rulebook, error) {
	b := &Rulebook{file: file, log: log, look: make(chan struct{}, 1)}
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

// restFactor makes looks for pushed metrics take a tenth of a processor at most, however often the rules change.
const restFactor = 9

// Run looks for pushed metrics of the names of rules, at once and then at intervals, and reads rules-file
// again when it changes, until ctx ends. The table is restored before.
func (b *Rulebook) Run(ctx context.Context) error {
	tick, review := time.NewTicker(rulesPoll), time.NewTicker(rulesReview)
	defer tick.Stop()
	defer review.Stop()
	var rested <-chan time.Time // nil: no look rests
	look := b.look              // nil while one does
	for b.LookSoon(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if b.file != "" {
				b.reread()
			}
		case <-review.C:
			b.LookSoon()
		case <-look:
			began := time.Now()
			b.lookForPushed()
			look, rested = nil, time.After(restFactor*time.Since(began))
		case <-rested:
			look, rested = b.look, nil
		}
	}
}

// LookSoon asks Run to look for pushed metrics. It never blocks.
func (b *Rulebook) LookSoon() {
	select {
	case b.look <- struct{}{}:
	default: // it will look anyway, at the present rules
	}
}

// EndNamespace forgets the values of an ended namespace, also in statuses.
func (b *Rulebook) EndNamespace(name string) {
	b.Set().EndNamespace(name)
	b.LookSoon()
}

// setClusterRules replaces the rules of the cluster.
func (b *Rulebook) setClusterRules(documents []rule.Document) {
	b.replace(func() { b.ofCluster = documents })
}

func (b *Rulebook) replace(change func()) {
	b.mu.Lock()
	change()
	b.rebuildLocked()
	b.mu.Unlock()
	if b.Changed != nil {
		b.Changed()
	}
	b.LookSoon()
}

// rebuildLocked checks all rules against each other. Unchanged ones are not compiled again.
func (b *Rulebook) rebuildLocked() {
	all := make([]rule.Document, 0, len(b.ofFile)+len(b.ofCluster))
	all = append(append(all, b.ofFile...), b.ofCluster...)
	b.Replace(rule.NewSet(all, labelselector.MatchLabels, b.Set()))
}

// ReadsOf are the bare names of the pushed metrics that a name may be read from: its own, and those of
// a rule's operands.
func (b *Rulebook) ReadsOf(namespace, name string) []string {
	if b == nil {
		return []string{name}
	}
	var all []string
	for _, pushed := range b.Set().Pushed(metric.Query{Namespace: namespace, Expression: metric.Expression{Name: name}}) {
		all = append(all, pushed.Name)
	}
	return all
}

// lookForPushed looks for pushed metrics of the names of rules: they answer instead of the rules. Only
// run calls it.
func (b *Rulebook) lookForPushed() {
	set := b.Set()
	if b.Pushed == nil || set == nil {
		return
	}
	asked := map[Name]bool{}
	for _, v := range set.Verdicts() {
		if v.Rule != nil && v.Rule.Metric() != "" {
			asked[Name{v.Document.Namespace, v.Rule.Metric()}] = true
		}
	}
	var pushed map[Name]string
	if len(asked) > 0 {
		pushed = b.Pushed(asked)
	}
	ofUID, now := map[string]string{}, map[string]string{}
	for _, v := range set.Verdicts() {
		if v.Rule == nil {
			continue
		}
		where := pushed[Name{v.Document.Namespace, v.Rule.Metric()}]
		if where == "" {
			continue
		}
		text := fmt.Sprintf("the metric %q is pushed %s, and the pushed metric answers there; must be another name",
			v.Rule.Metric(), where)
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

// fileStamp tells versions of a file apart without reading it.
type fileStamp struct {
	modified time.Time
	size     int64
	fault    string
}

// readRules reads a file of rules. The error has all faults.
func readRules(file string) ([]rule.Document, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents, err := rule.Parse(file, text)
	if err = errors.Join(err, rule.NewSet(documents, labelselector.MatchLabels, nil).Faults()); err != nil {
		return nil, err
	}
	return documents, nil
}

func (b *Rulebook) stampOf() fileStamp {
	found, err := os.Stat(b.file)
	if err != nil {
		return fileStamp{fault: err.Error()}
	}
	return fileStamp{modified: found.ModTime(), size: found.Size()}
}

// reread reads rules-file if it changed. A file with a fault changes nothing.
func (b *Rulebook) reread() {
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
