package customkind

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// clusterRules keeps the rules equal to the objects of both kinds in the cluster, and reports what
// became of them, with their last values.
type clusterRules struct {
	*customKinds[rule.Document] // whose lock guards the rest, too
	book                        *Rulebook
	// policies decide which values everybody may see who may read the rule; nil: all.
	policies policy.Checker

	value map[string]ruleValue // in statuses, by UID
	// renewed is when values were taken over into statuses last.
	renewed time.Time
}

func newClusterRules(book *Rulebook, event func(on metric.Object, reason, about, message string)) *clusterRules {
	c := &clusterRules{customKinds: newCustomKinds[rule.Document]("metricrules", "clustermetricrules", event),
		book: book, value: map[string]ruleValue{}}
	c.read, c.apply, book.review = ruleDocument, book.setClusterRules, c.report
	return c
}

// ruleValue is the last value in a status.
type ruleValue struct {
	fields map[string]string
	set    time.Time
}

// Bounds of the writes of statuses for their values alone: of one rule, and of all rules in a review.
const (
	ruleValueEvery  = time.Minute
	sameValueEvery  = 10 * time.Minute // for the time alone
	mostValueWrites = int(rulesReview / time.Second)
)

// WatchRules keeps a Rulebook equal to the rules of a cluster. policies decide which values everybody may see who
// may read the rule; nil: all.
func WatchRules(view *cluster.View, book *Rulebook, policies policy.Checker) {
	all := newClusterRules(book, view.Event)
	all.policies = policies
	all.watch(view)
}

// ruleDocument reads an object. A spec that cannot be read is a fault of the rule.
func ruleDocument(o *cluster.CustomObject) rule.Document {
	d := rule.Document{Namespace: o.Namespace, Name: o.Name, UID: o.UID, Generation: o.Generation, Created: o.Created}
	if o.Fault != "" {
		d.Fault = unique.Make("spec cannot be read: " + o.Fault).Value()
		return d
	}
	decoder := json.NewDecoder(bytes.NewReader(o.Spec))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d.Spec); err != nil {
		d.Fault = fmt.Sprintf("spec: %s", metric.Truncate(err.Error(), metric.MaxQuoted)) // may quote all of it
	}
	return d
}

// report says what became of each rule.
func (c *clusterRules) report(set *rule.Set, hidden map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewValuesLocked(set)
	there, refused := map[string]bool{}, 0
	for _, v := range set.Verdicts() {
		if uid := v.Document.UID; uid != "" {
			there[uid] = true
			refused = c.reportRuleLocked(set, &v, hidden[uid], refused)
		}
	}
	if refused > mostRefusedLogged {
		c.book.log.Warn("more rules are refused; see sluice list rules -A", "rules", refused-mostRefusedLogged)
	}
	c.forgetLocked()
	for uid := range c.value {
		if !there[uid] {
			delete(c.value, uid)
		}
	}
}

// mostRefusedLogged is the number of refused rules that one report logs.
const mostRefusedLogged = 20

// reportRuleLocked reports on one rule. hidden says where its metric is pushed. refused is the
// number of rules that this report found refused so far; the result includes this one.
func (c *clusterRules) reportRuleLocked(set *rule.Set, v *rule.Verdict, hidden string, refused int) int {
	kind := c.kinds[0]
	if v.Document.Namespace == "" {
		kind = c.kinds[1]
	}
	o := kind.known[v.Document.UID].object
	if o == nil {
		return refused // it is deleted
	}
	condition := cluster.Condition{Type: "Accepted", True: true, Reason: string(v.Reason), Message: "the rule holds"}
	switch {
	case v.Fault != "":
		condition = cluster.Condition{Type: "Accepted", Reason: string(v.Reason), Message: v.Fault}
	case hidden != "":
		condition = cluster.Condition{Type: "Accepted", Reason: inspect.RulePushed, Message: hidden}
	}
	if c.isNewFaultLocked(o, &condition) {
		if refused++; refused <= mostRefusedLogged {
			c.book.log.Warn("a rule is refused", "rule", v.Document.String(), "reason", condition.Reason,
				"fault", condition.Message)
		}
	}
	c.reportLocked(kind, o, cluster.CustomStatus{Conditions: []cluster.Condition{condition}, Fields: c.fieldsLocked(set, v, o)},
		"RuleRefused", condition.Reason+condition.Message)
	return refused
}

// fieldsLocked are those of the last value. A value that a policy may keep from somebody is not in
// them, and what was written of one before is removed, by a former process too. While the policies have not decided, the
// status keeps what it has.
func (c *clusterRules) fieldsLocked(set *rule.Set, v *rule.Verdict, o *cluster.CustomObject) map[string]string {
	uid := v.Document.UID
	if v.Rule == nil {
		delete(c.value, uid)
		return noRuleValue
	}
	switch last := v.Rule.Last(); {
	case last == nil && c.value[uid].fields != nil: // the namespace of the value ended, or the rule changed
		c.value[uid] = ruleValue{fields: noRuleValue}
	case last == nil:
		if may, undecided := c.mayKeepValue(set, v, o); !may && !undecided {
			return noRuleValue
		}
	default:
		may, undecided := c.mayShowValue(ruleListed(set, v))
		if undecided {
			return nil
		}
		if !may {
			delete(c.value, uid)
			return noRuleValue
		}
	}
	return c.value[uid].fields
}

// mayShowValue reports whether all may see the last value of a rule; undecided: not yet.
func (c *clusterRules) mayShowValue(listed inspect.Rule) (may, undecided bool) {
	all := policy.Unseen{Policies: c.policies}
	return listed.MayShowValue(&all), all.Undecided
}

// mayKeepValue reports whether a status keeps the value that a former process or another replica wrote: of the same spec, in a
// namespace that cannot have ended meanwhile, and of an object or of what all may see.
func (c *clusterRules) mayKeepValue(set *rule.Set, v *rule.Verdict, o *cluster.CustomObject) (may, undecided bool) {
	var has struct {
		ObservedGeneration     int64
		LastValue, LastValueOf string
	}
	if json.Unmarshal(o.Status, &has) != nil || has.LastValue == "" {
		return true, false // there is none
	}
	listed := ruleListed(set, v)
	if listed.Asked = v.Document.Namespace; listed.Asked == "" || has.ObservedGeneration != o.Generation {
		return false, false
	}
	if !strings.HasPrefix(has.LastValueOf, external) {
		listed.Of.Resource = has.LastValueOf
	}
	listed.Renamed = renamedOperands(set, listed.Asked, listed.Operands)
	return c.mayShowValue(listed)
}

// external begins the name of the object of an external metric.
const external = "external"

// renewValuesLocked takes over the newest values of some rules: of those whose statuses are due,
// the ones that were written longest ago. Every rule has its turn, and the API server gets one
// write a second at most.
func (c *clusterRules) renewValuesLocked(set *rule.Set) {
	verdicts := set.Verdicts()
	if time.Since(c.renewed) < rulesReview/2 {
		return
	}
	type due struct {
		uid  string
		was  time.Time
		last *rule.Value
	}
	var all []due
	for i := range verdicts {
		uid, r := verdicts[i].Document.UID, verdicts[i].Rule
		if uid == "" || r == nil {
			continue
		}
		if last := r.Last(); last != nil && c.value[uid].isDue(last) {
			if may, _ := c.mayShowValue(ruleListed(set, &verdicts[i])); may {
				all = append(all, due{uid, c.value[uid].set, last})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b due) int { return a.was.Compare(b.was) })
	for _, d := range all[:min(len(all), mostValueWrites)] {
		c.renewed = time.Now()
		c.value[d.uid] = ruleValue{set: c.renewed, fields: valueFields(d.last)}
	}
}

// isDue reports whether the status is to be written for a newer value alone.
func (v ruleValue) isDue(last *rule.Value) bool {
	age := time.Since(v.set)
	if age < ruleValueEvery || age >= sameValueEvery {
		return age >= ruleValueEvery
	}
	now := valueFields(last)
	return v.fields["lastValue"] != now["lastValue"] || v.fields["lastValueOf"] != now["lastValueOf"]
}

// valueFields are the fields of a status about a value.
func valueFields(last *rule.Value) map[string]string {
	return map[string]string{"lastValue": string(last.Number.Append(nil)),
		"lastValueOf": last.Object.String(), "lastValueTime": last.Time.UTC().Format(time.RFC3339)}
}

// noRuleValue removes the last value from a status.
var noRuleValue = map[string]string{"lastValue": "", "lastValueOf": "", "lastValueTime": ""}
