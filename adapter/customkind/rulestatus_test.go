package customkind

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// reported is the joint of a cluster's rules with the statuses and Events that it made.
type reported struct {
	*clusterRules
	statuses map[string]cluster.CustomStatus // by name
	events   []string
	pushed   string // a name that is pushed
	rebuilds int
}

// reportFunc gets the statuses of objects that are known.
type reportFunc func(*cluster.CustomObject, cluster.CustomStatus)

func (reportFunc) Known() bool                                                   { return true }
func (reportFunc) Unreadable() string                                            { return "" }
func (f reportFunc) Report(o *cluster.CustomObject, status cluster.CustomStatus) { f(o, status) }

func newReported(t *testing.T) *reported {
	t.Helper()
	book, err := NewRulebook("", slog.New(slog.DiscardHandler))
	must(t, err)
	r := &reported{statuses: map[string]cluster.CustomStatus{}}
	r.clusterRules = newClusterRules(book, func(on metric.Object, reason, _, message string) {
		r.events = append(r.events, on.Resource+"/"+on.Name+" "+reason+": "+message)
	})
	for _, kind := range r.kinds {
		kind.objects = reportFunc(func(o *cluster.CustomObject, status cluster.CustomStatus) { r.statuses[o.Name] = status })
	}
	book.Changed = func() { r.rebuilds++ }
	book.Pushed = func(asked map[Name]bool) map[Name]string {
		pushed := map[Name]string{}
		for name := range asked {
			if name.Metric == r.pushed {
				pushed[name] = "as a metric of pods"
			}
		}
		return pushed
	}
	return r
}

// changed tells of objects, and looks for pushed metrics as the goroutine of Rulebook.Run does.
func (r *reported) changed(kind *customKind[rule.Document], now []*cluster.CustomObject) {
	r.clusterRules.changed(kind, now)
	r.book.lookForPushed()
}

// object is a rule whose metric is value of x.
func object(namespace, name, metric, value string) *cluster.CustomObject {
	spec, _ := json.Marshal(map[string]any{"metric": metric, "let": map[string]string{"x": "pushed"}, "value": value}) //nolint:errchkjson // strings
	return &cluster.CustomObject{Namespace: namespace, Name: name, UID: "u-" + namespace + name, Generation: 1, Created: time.Unix(1e9, 0), Spec: spec}
}

func (r *reported) want(t *testing.T, name string, accepted bool, reason, fragment string) {
	t.Helper()
	conditions := r.statuses[name].Conditions
	if len(conditions) != 1 || conditions[0].Type != "Accepted" || conditions[0].True != accepted || conditions[0].Reason != reason ||
		!strings.Contains(conditions[0].Message, fragment) {
		t.Errorf("%s: %+v, want %t %s %q", name, conditions, accepted, reason, fragment)
	}
}

// Each rule's status says what became of it. A fault is one Event until it changes.
func TestRulesOfTheCluster(t *testing.T) {
	r := newReported(t)
	good, bad := object("shop", "good", "twice", "2.0 * x"), object("shop", "bad", "half", "x / 2")
	odd := object("", "odd", "m", "x")
	odd.Spec = json.RawMessage(`{"metric": 7}`)
	hidden := object("shop", "hidden", "shown", "x")
	r.pushed = "shown"
	r.changed(r.kinds[0], []*cluster.CustomObject{good, bad, hidden})
	r.changed(r.kinds[1], []*cluster.CustomObject{odd})
	r.want(t, "good", true, "Accepted", "the rule holds")
	r.want(t, "bad", false, "Invalid", "2.0, not 2")
	r.want(t, "odd", false, "Invalid", "cannot unmarshal number")
	r.want(t, "hidden", false, "Pushed", `"shown" is pushed as a metric of pods`)
	if r.book.Set().Rule("shop", "twice") == nil || len(r.events) != 3 {
		t.Errorf("events: %q", r.events)
	}
	r.book.lookForPushed()
	again := *bad
	again.Status = json.RawMessage(`{}`) // as the API server tells of a status that was written
	r.changed(r.kinds[0], []*cluster.CustomObject{good, &again, hidden})
	if len(r.events) != 3 || r.rebuilds != 2 {
		t.Errorf("%d events, %d rebuilds", len(r.events), r.rebuilds)
	}
	mended := object("shop", "bad", "half", "x / 2.0")
	mended.Generation, r.pushed = 2, ""
	worse := object("shop", "worse", "third", "x / 3")
	r.changed(r.kinds[0], []*cluster.CustomObject{good, mended, hidden, worse})
	r.want(t, "worse", false, "Invalid", "")
	r.want(t, "bad", true, "Accepted", "")
	r.want(t, "hidden", true, "Accepted", "")
	r.changed(r.kinds[0], nil)
	if r.book.Set().Rule("shop", "twice") != nil || len(r.told) != 1 {
		t.Errorf("a deleted rule holds, or is remembered: %v", r.told)
	}
}

// A thousand broken rules have a status and an Event each, and few lines in the log.
func TestAThousandBrokenRules(t *testing.T) {
	r := newReported(t)
	var log strings.Builder
	r.book.log = slog.New(slog.NewTextHandler(&log, nil))
	var all []*cluster.CustomObject
	for i := range 1000 {
		all = append(all, object("shop", fmt.Sprint("r", i), fmt.Sprint("m", i), "y / 2"))
	}
	r.changed(r.kinds[0], all)
	r.changed(r.kinds[0], all)
	if n := strings.Count(log.String(), "\n"); len(r.statuses) != 1000 || len(r.events) != 1000 || n != mostRefusedLogged+1 ||
		!strings.Contains(log.String(), "rules=980") {
		t.Errorf("%d statuses, %d Events, %d lines: %.300s", len(r.statuses), len(r.events), n, log.String())
	}
	r.want(t, "r999", false, "Invalid", "undeclared reference to 'y'")
}

// Statuses that are written for their values alone are few, however many rules are read, and each rule has
// its turn.
func TestFewStatusesAreWrittenForValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReported(t)
		const rules = 1000
		var all []*cluster.CustomObject
		for i := range rules {
			all = append(all, object(fmt.Sprint("ns-", i/200), fmt.Sprint("r", i), fmt.Sprint("m", i), "x"))
		}
		writes, shown := 0, map[string]string{}
		r.kinds[0].objects = reportFunc(func(o *cluster.CustomObject, status cluster.CustomStatus) {
			if text := fmt.Sprint(status.Fields); shown[o.Name] != text && text != "map[]" {
				writes++
				shown[o.Name] = text
			}
		})
		r.changed(r.kinds[0], all)
		run := func(minutes int, value func(i int) float64) {
			writes = 0
			for i := range minutes * 6 {
				if i%6 == 0 {
					readAll(t, r.book.Set(), all, value(i))
				}
				time.Sleep(rulesReview)
				r.book.lookForPushed()
			}
		}
		run(20, func(i int) float64 { return float64(i) })
		if writes > 20*60 || len(shown) != rules {
			t.Errorf("%d writes of %d rules in 20 minutes", writes, len(shown))
		}
		t.Logf("%d rules whose values change: %.2f writes/s", rules, float64(writes)/20/60)
		all = all[:50]
		r.changed(r.kinds[0], all)
		run(20, func(int) float64 { return 7 })
		if writes > 50*4 {
			t.Errorf("%d writes of %d unchanged values in 20 minutes", writes, len(all))
		}
		t.Logf("%d rules whose values stay: %.2f writes/s", len(all), float64(writes)/20/60)
	})
}

// readAll reads the metric of each rule.
func readAll(t *testing.T, set *rule.Set, all []*cluster.CustomObject, value float64) {
	t.Helper()
	read := func(q metric.Query) ([]metric.Point, error) {
		if q.Expression.Name != "pushed" {
			return nil, metric.NotFoundf("none")
		}
		return []metric.Point{{Object: metric.Object{Namespace: q.Namespace}, Value: metric.Float(value)}}, nil
	}
	for _, c := range all {
		q := metric.Query{Namespace: c.Namespace, Expression: metric.Expression{Name: "m" + c.Name[1:]}}
		if _, err := set.Points(q, func() rule.Read { return read }); err != nil {
			t.Fatal(err)
		}
	}
}

// pushedTo returns what sets the external metric "pushed" of shop, and a reader of it and of rules.
func pushedTo(t *testing.T, book *Rulebook) (push func(int64), reader *answer.Reader) {
	t.Helper()
	return pushedIn(t, "shop", book)
}

// pushedIn is pushedTo for a namespace; empty: the metric is of all.
func pushedIn(t *testing.T, namespace string, book *Rulebook) (push func(int64), reader *answer.Reader) {
	table := aggregate.New(aggregate.DefaultConfig(), func(_ *metric.Sample, d *metric.Description) metric.Reason {
		d.Object = metric.Object{Namespace: namespace}
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	writer := table.NewWriter()
	return func(value int64) {
		t.Helper()
		if r := writer.Apply(&metric.Sample{Name: []byte("pushed"), Kind: metric.Gauge, Op: metric.Assign, Whole: value}); r != metric.Applied {
			t.Fatal(r)
		}
	}, answer.New(answer.Parts{Merged: aggregate.NewMerged(table), Rules: &book.Current})
}

// A value that a reader got is in the status, and is not written more often than once a minute.
func TestTheLastValueOfARule(t *testing.T) {
	t.Parallel()
	r := newReported(t)
	push, reader := pushedTo(t, r.book)
	r.book.Pushed = nil
	r.changed(r.kinds[0], []*cluster.CustomObject{object("shop", "good", "twice", "2.0 * x")})
	for _, value := range []int64{3, 4} {
		push(value)
		if _, err := reader.External(metric.Query{Namespace: "shop", Expression: metric.ParseExpression("twice")}); err != nil {
			t.Fatal(err)
		}
		r.clusterRules.report(r.book.Set(), nil)
		if f := r.statuses["good"].Fields; f["lastValue"] != "6" || f["lastValueOf"] != "external in shop" || f["lastValueTime"] == "" {
			t.Errorf("%v", f)
		}
	}
}

// A value ends with its namespace, in the status of a rule of the cluster too, and stays gone.
func TestLastValuesEndWithTheirNamespace(t *testing.T) {
	t.Parallel()
	r := newReported(t)
	push, reader := pushedTo(t, r.book)
	r.book.Pushed = nil
	r.changed(r.kinds[1], []*cluster.CustomObject{object("", "good", "twice", "2.0 * x")})
	push(3)
	if _, err := reader.External(metric.Query{Namespace: "shop", Expression: metric.ParseExpression("twice")}); err != nil {
		t.Fatal(err)
	}
	r.clusterRules.report(r.book.Set(), nil)
	if f := r.statuses["good"].Fields; f["lastValue"] != "6" {
		t.Fatalf("before: %v", f)
	}
	r.book.EndNamespace("shop")
	for range 2 {
		r.clusterRules.report(r.book.Set(), nil)
		if f := r.statuses["good"].Fields; fmt.Sprint(f) != fmt.Sprint(noRuleValue) {
			t.Errorf("after: %v", f)
		}
	}
}

// The watch tells of each status that is written. That is no change of the rules.
func BenchmarkStatusOfARule(b *testing.B) {
	book, err := NewRulebook("", slog.New(slog.DiscardHandler))
	must(b, err)
	c := newClusterRules(book, nil)
	var all []*cluster.CustomObject
	for i := range 1000 {
		all = append(all, object(fmt.Sprint("ns-", i/200), fmt.Sprint("r", i), fmt.Sprint("m", i), "x"))
	}
	c.changed(c.kinds[0], all)
	for b.Loop() {
		c.changed(c.kinds[0], all)
	}
}

// The status of a rule is for all who may read the rule, so it has no value that a policy may keep from
// some of them: of the rule's name, or of an operand.
func TestPoliciesOfTheLastValue(t *testing.T) {
	t.Parallel()
	r := newReported(t)
	push, reader := pushedTo(t, r.book)
	r.book.Pushed = nil
	policies, kinds := newWatched()
	r.policies = policies
	r.changed(r.kinds[0], []*cluster.CustomObject{object("shop", "good", "twice", "2.0 * x")})
	push(3)
	if _, err := reader.External(metric.Query{Namespace: "shop", Expression: metric.ParseExpression("twice")}); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		of, metric, want string
		unreadable       string
	}{
		{"shop", "other", "6", ""}, {"shop", "pushed", "", ""}, {"shop", "twice", "", ""}, {"", "push.*", "", ""}, {"bank", "pushed", "6", ""},
		{"shop", "other", "", "no right"},
	} {
		kinds[0].unreadable = one.unreadable
		policies.set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: one.of, Name: "p"}, policy.Spec{
			Subjects: []policy.Subject{{Kind: "User", Name: "joe"}}, Rules: []policy.Rule{{Metric: one.metric, Selector: &policy.Selector{}}}})})
		r.renewed = time.Time{} // no write of a value came a moment ago
		r.clusterRules.report(r.book.Set(), nil)
		if fields := r.statuses["good"].Fields; fields["lastValue"] != one.want || fields == nil {
			t.Errorf("%+v: %q, a former value is removed: %v", one, fields["lastValue"], fields != nil)
		}
	}
}

// While the policies have not decided about a metric, its status keeps the value that it has: of this process and of a former one.
func TestLastValuesStayWhilePoliciesAreUndecided(t *testing.T) {
	t.Parallel()
	r := newReported(t)
	push, reader := pushedTo(t, r.book)
	r.book.Pushed = nil
	policies, _ := newWatched()
	decided := true
	policies.reconciled = func() bool { return decided }
	r.policies = policies
	former := object("shop", "former", "thrice", "3.0 * x")
	former.Status = json.RawMessage(`{"observedGeneration": 1, "lastValue": "6", "lastValueOf": "external in shop"}`)
	r.changed(r.kinds[0], []*cluster.CustomObject{object("shop", "good", "twice", "2.0 * x"), former})
	push(3)
	_, err := reader.External(metric.Query{Namespace: "shop", Expression: metric.ParseExpression("twice")})
	must(t, err)
	report := func(name, want string) {
		t.Helper()
		r.clusterRules.report(r.book.Set(), nil)
		if got := fmt.Sprint(r.statuses[name].Fields["lastValue"], r.statuses[name].Fields != nil); got != want {
			t.Errorf("%s is written of %s, want %s", got, name, want)
		}
	}
	decided = false
	report("good", "false")
	report("former", "false")
	decided, r.renewed = true, time.Time{}
	report("good", "6true")
	report("former", "false")
	decided = false
	report("good", "false")
	policies.set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "p"}, policy.Spec{
		Rules: []policy.Rule{{Metric: "pushed", Deny: true}}})})
	report("good", "false")
	decided = true
	report("good", "true")
	report("former", "true")
}

// A policy of a namespace holds for a metric of all namespaces that is read there, and a policy of a pushed metric where an operand
// has a name that a rename gives it.
func TestPoliciesOfOperandsThatAreElsewhere(t *testing.T) {
	t.Parallel()
	for in, operand := range map[string]string{"": "pushed", "shop": "renamed"} {
		r := newReported(t)
		push, reader := pushedIn(t, in, r.book)
		r.book.Pushed = nil
		policies, _ := newWatched()
		r.policies = policies
		good, names := object("shop", "good", "twice", "2.0 * x"), object("shop", "names", "", "")
		good.Spec = json.RawMessage(`{"metric": "twice", "let": {"x": "` + operand + `"}, "value": "2.0 * x"}`)
		names.Spec = json.RawMessage(`{"rename": {"from": "pushed", "to": "renamed"}}`)
		r.changed(r.kinds[0], []*cluster.CustomObject{good, names})
		push(3)
		for _, one := range []struct{ metric, want string }{{"other", "6"}, {"pushed", ""}} {
			if _, err := reader.External(metric.Query{Namespace: "shop", Expression: metric.ParseExpression("twice")}); err != nil {
				t.Fatal(err)
			}
			policies.set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "p"}, policy.Spec{
				Rules: []policy.Rule{{Metric: one.metric, Deny: true}}})})
			r.renewed = time.Time{}
			r.clusterRules.report(r.book.Set(), nil)
			if got := r.statuses["good"].Fields["lastValue"]; got != one.want {
				t.Errorf("operand %s, policy of %s: %q, want %q", operand, one.metric, got, one.want)
			}
		}
	}
}

// A value that a former process wrote is removed from a status if all may not see it, if it may be of a namespace that has ended
// since, or of another spec.
func TestFormerValuesInStatuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of, denied     string
		generation     int64
		cluster, stays bool
	}{
		"of an object":               {of: "pods/web-1 in shop", denied: "pushed", stays: true},
		"external":                   {of: "external in shop", denied: "other", stays: true},
		"external, denied":           {of: "external in shop", denied: "pushed"},
		"external, of another spec":  {of: "external in shop", denied: "other", generation: 2},
		"of a rule of the cluster":   {of: "pods/web-1 in shop", denied: "other", cluster: true},
		"of an object, another spec": {of: "pods/web-1 in shop", denied: "other", generation: 2},
	} {
		r := newReported(t)
		r.book.Pushed = nil
		policies, _ := newWatched()
		policies.set.Replace([]*policy.Policy{policy.Compile(policy.Meta{Namespace: "shop", Name: "p"}, policy.Spec{
			Rules: []policy.Rule{{Metric: c.denied, Deny: true}}})})
		r.policies = policies
		namespace, kind := "shop", r.kinds[0]
		if c.cluster {
			namespace, kind = "", r.kinds[1]
		}
		good := object(namespace, "good", "twice", "2.0 * x")
		good.Generation = max(c.generation, 1)
		good.Status = json.RawMessage(`{"observedGeneration": 1, "lastValue": "6", "lastValueOf": "` + c.of + `"}`)
		r.changed(kind, []*cluster.CustomObject{good})
		r.clusterRules.report(r.book.Set(), nil)
		if removed := r.statuses["good"].Fields != nil; removed == c.stays {
			t.Errorf("%s: it is removed: %v", name, removed)
		}
	}
}
