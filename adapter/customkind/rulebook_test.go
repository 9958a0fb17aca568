package customkind

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/aggregate/rule/ruletest"
)

// rules-file is read again when it changes; a file with a fault changes nothing.
func TestRulesFileIsReadAgain(t *testing.T) {
	file := ruletest.File(t, ruletest.Busy)
	var log strings.Builder
	b, err := NewRulebook(file, slog.New(slog.NewTextHandler(&log, nil)))
	must(t, err)
	changes := 0
	b.Changed = func() { changes++ }
	write := func(text string, at int) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(text), 0o600))
		stamp := time.Now().Add(time.Duration(at) * time.Minute)
		must(t, os.Chtimes(file, stamp, stamp))
		b.reread()
	}
	b.reread()
	before := b.Set().Rule("shop", "busy_ratio")
	if before == nil || changes > 0 {
		t.Fatalf("%v, %d changes", before, changes)
	}
	write(strings.ReplaceAll(ruletest.Busy, "busy / total", "busy / totl"), 1)
	if b.Set().Rule("shop", "busy_ratio") != before || changes > 0 || !strings.Contains(log.String(), "rules-file is invalid") {
		t.Errorf("a fault changed the rules: %s", &log)
	}
	write(strings.ReplaceAll(ruletest.Busy, "busy_ratio", "busy_share"), 2)
	if b.Set().Rule("shop", "busy_ratio") != nil || b.Set().Rule("shop", "busy_share") == nil || changes != 1 {
		t.Errorf("the change was not read: %d changes", changes)
	}
	must(t, os.Remove(file))
	b.reread()
	if b.Set().Rule("shop", "busy_share") == nil {
		t.Error("the rules ended with their file")
	}
	if _, err := NewRulebook(file, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a missing file is no fault at the start")
	}
}

// A pushed metric of a rule's name is found at the start, after each change of the rules, and ten seconds
// after it is pushed, by one goroutine.
func TestPushedMetricsOfRulesAreFoundAtTheStart(t *testing.T) {
	file := ruletest.File(t, ruletest.Busy)
	synctest.Test(t, func(t *testing.T) {
		b, err := NewRulebook(file, slog.New(slog.DiscardHandler))
		must(t, err)
		var pushed atomic.Value
		var looks atomic.Int32
		pushed.Store("busy_ratio")
		b.Pushed = func(asked map[Name]bool) map[Name]string {
			looks.Add(1)
			name := Name{"shop", pushed.Load().(string)}
			if !asked[name] {
				return nil
			}
			return map[Name]string{name: "of pods"}
		}
		state := func(want string) {
			t.Helper()
			synctest.Wait()
			for _, r := range b.Listed() {
				if r.Name == "busy" && r.State != want {
					t.Errorf("%s after %d looks; want %s", r.State, looks.Load(), want)
				}
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = b.Run(ctx) }()
		state(inspect.RulePushed)
		pushed.Store("other")
		b.setClusterRules([]rule.Document{{Name: "of-cluster", Namespace: "shop", Spec: rule.Spec{Metric: "other", Let: map[string]string{"x": "y"}, Value: "x"}}})
		state("Accepted")
		pushed.Store("busy_ratio")
		time.Sleep(11 * time.Second)
		state(inspect.RulePushed)
		if n := looks.Load(); n != 3 {
			t.Errorf("%d looks", n)
		}
		stop()
		<-done
	})
}

// Rules that change all the time have all metrics looked at in a tenth of the time, once for all rules; the last change is seen.
func TestLooksForPushedMetricsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rules, took, during = 200, 50 * time.Millisecond, 10 * time.Second
		b, err := NewRulebook("", slog.New(slog.DiscardHandler))
		must(t, err)
		var looks, asked atomic.Int64
		b.Pushed = func(names map[Name]bool) map[Name]string {
			time.Sleep(took)
			looks.Add(1)
			asked.Store(int64(len(names)))
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = b.Run(ctx) }()
		var all []rule.Document
		for began := time.Now(); time.Since(began) < during; time.Sleep(10 * time.Millisecond) {
			if len(all) < rules {
				all = append(all, rule.Document{Namespace: "shop", Name: fmt.Sprint("r", len(all)),
					Spec: rule.Spec{Metric: fmt.Sprint("m", len(all)), Let: map[string]string{"x": "y"}, Value: "x"}})
			}
			b.setClusterRules(slices.Clone(all))
		}
		time.Sleep(time.Second)
		if most := int64((during+time.Second)/(10*took)) + 1; looks.Load() > most || asked.Load() != rules {
			t.Errorf("%d looks, the last one for %d rules; want %d at most, for %d", looks.Load(), asked.Load(), most, rules)
		}
		stop()
		<-done
	})
}

// A metric that several operands read, with selectors of their own, is listed once.
func TestAListedRuleNamesEachMetricOnce(t *testing.T) {
	b, err := NewRulebook(ruletest.File(t, `apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: apdex, namespace: shop}
spec:
  metric: apdex
  let: {satisfied: requests, all: requests, past: "requests:count:10s"}
  selectors: {satisfied: zone=satisfied}
  value: satisfied / all + past
`), slog.New(slog.DiscardHandler))
	must(t, err)
	if listed := b.Listed(); len(listed) != 1 || strings.Join(listed[0].From, " ") != "requests requests:count:10s" {
		t.Errorf("%+v", listed)
	}
}
