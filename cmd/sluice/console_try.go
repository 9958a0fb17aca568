package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/console"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/limit"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// trial says what would happen to StatsD lines. It asks the parts that would decide, in their
// order, and applies nothing.
type trial struct {
	path *dataPath
	// sees reports whether the reader may see a namespace (empty: all of them).
	sees func(namespace string) bool
}

// try implements console.Parts.Try.
func (p *dataPath) try(text []byte, from string, sees func(namespace string) bool) []console.Outcome {
	return trial{p, sees}.lines(text, from)
}

func (t trial) lines(text []byte, from string) (all []console.Outcome) {
	cfg := t.path.cfg
	scanner := statsd.NewScanner(statsd.Options{
		Dialect: cfg.statsd.dialect, MaxLine: cfg.receiver.MaxLine, MaxTags: cfg.receiver.MaxTags})
	scanner.Sample.DefaultExternal = cfg.statsd.about == receiver.AboutExternal
	sender, why := t.sender(from)
	scanner.Sample.Sender = sender
	for scanner.Reset(text); scanner.Next(); {
		line := scanner.Line()
		outcome := console.Outcome{Line: strings.ToValidUTF8(string(line), "\uFFFD")}
		if f := scanner.Fault; f.Reason != metric.Applied {
			outcome.Reason, outcome.Why = f.Reason.String(), f.Explain(line)
		} else if why != "" {
			outcome.Reason, outcome.Why = metric.Identity.String(), why
		} else {
			t.sample(&scanner.Sample, &outcome)
		}
		all = append(all, outcome)
	}
	return all
}

// sender is the sender of a name: a pod as "namespace/name", an address, a user; empty or "unix": a
// Unix socket. Standalone there are none. why: there is no such sender.
func (t trial) sender(name string) (s *metric.Sender, why string) {
	view := t.path.cluster.view
	if view == nil {
		return nil, ""
	}
	s = &metric.Sender{Key: metric.LocalKey, Known: true}
	if address, err := netip.ParseAddr(name); err == nil {
		if found := view.Sender(address); found != nil {
			return found, ""
		}
		return &metric.Sender{Key: metric.LocalKey, Address: address}, ""
	}
	namespace, pod, isPod := strings.Cut(name, "/")
	switch {
	case name == "", name == "unix":
	case !isPod:
		s.Principal = principal(name)
	default:
		if s.Pod = view.PodNamed(namespace, pod); s.Pod == nil {
			return s, "there is no pod " + name + " any more, or it has finished; must be namespace/name of a live one"
		}
	}
	return s, ""
}

// principal is a user, whose rights nobody has asked for.
func principal(user string) *metric.Principal {
	p := &metric.Principal{User: user, Rights: unasked{}}
	if account, ok := strings.CutPrefix(user, accountPrefix); ok {
		p.Namespace, p.Name, _ = strings.Cut(account, ":")
	}
	return p
}

// accountPrefix begins the user names of service accounts.
const accountPrefix = "system:serviceaccount:"

// unasked are rights that nobody has asked for. Trials ask the API server nothing.
type unasked struct{}

// Check implements metric.Rights.
func (unasked) Check(metric.Right) metric.Decision { return metric.Undecided }

// sample fills in what would happen to a sample.
func (t trial) sample(s *metric.Sample, outcome *console.Outcome) {
	outcome.Metric, outcome.Kind = strings.ToValidUTF8(string(s.Name), "\uFFFD"), s.Kind.String()
	outcome.Value = valueText(s)
	var d metric.Description
	reason, why := t.verdict(s, &d)
	if t.hides(&d.Object) {
		outcome.Reason, outcome.Why = t.unseen(s.Sender, &d.Object)
		return
	}
	if reason != metric.Malformed && reason != metric.BadName && reason != metric.TooLong {
		outcome.Of, outcome.Namespace, outcome.Labels = d.Object.String(), d.Object.Namespace, cloned(d.Labels)
	}
	if reason == metric.Applied {
		reason, why = t.admission(s, &d, outcome)
	}
	if outcome.Reason, outcome.Why = reason.String(), why; reason != metric.Applied {
		return
	}
	outcome.Why = "The next read shows it."
	for _, stat := range s.Kind.Stats() {
		outcome.Stats = append(outcome.Stats, outcome.Metric+":"+stat.String())
	}
}

// hides reports whether the reader may not see the namespace of an object. External metrics of no namespace are everyone's.
func (t trial) hides(o *metric.Object) bool {
	namespace := o.InNamespace()
	return (namespace != "" || !o.External()) && !t.sees(namespace)
}

// unseen is the verdict for a reader who may not see the object's namespace: it is the sender's rights', which don't
// depend on what is there.
func (t trial) unseen(from *metric.Sender, o *metric.Object) (reason, why string) {
	if r, _, _ := t.path.resolver.May(from, metric.Create, *o); r != metric.Applied {
		return r.String(), "The sender's rights decide. The line is about a namespace that you may not see."
	}
	return "", "The sender may push this, if there is such an object and the limits have room: the line is about a namespace that you may not see."
}

// admission is the verdict of the table and the limits on a described sample.
func (t trial) admission(s *metric.Sample, d *metric.Description, outcome *console.Outcome) (metric.Reason, string) {
	kind, known := t.path.merged.Has(&d.Object, outcome.Metric, d.Labels)
	outcome.New, outcome.NewSeries = kind == metric.NoKind, !known
	switch {
	case !outcome.New && kind != s.Kind:
		return metric.KindConflict, "it " + kind.Conflict(s.Kind)
	case known:
		return metric.Applied, ""
	case t.path.table.Full():
		return metric.OverLimit, "it is a new series, and there is no room: " + t.path.cfg.seriesBounds()
	case t.path.cluster.limits != nil:
		if why := t.path.cluster.limits.Explain(d.Object, outcome.Metric); why != "" {
			return metric.OverLimit, why
		}
	}
	return metric.Applied, ""
}

// verdict is the verdict on value, name, identity and labels.
func (t trial) verdict(s *metric.Sample, d *metric.Description) (metric.Reason, string) {
	if reason := aggregate.Check(s); reason != metric.Applied {
		return reason, "the value or its sample rate is out of range for a " + s.Kind.String()
	}
	name := metric.Borrow(s.Name)
	if reason := metric.CheckName(name); reason != metric.Applied {
		return reason, "no Kubernetes API could ask for this name: " +
			"it must not be . or .. or status or finalize, must have no %, ?, control characters or invalid UTF-8, " +
			"and must not end as an expression does (:rate, :10s)"
	}
	if ignored, err := limit.ParsePatterns(t.path.cfg.ignore); err == nil && ignored.Match(name) {
		return metric.Ignored, "the name matches a pattern of the setting ignore"
	}
	if reason := t.path.resolver.Describe(s, d); reason != metric.Applied {
		return reason, t.path.resolver.Explain(s) + t.canI(s.Sender, &d.Object, reason)
	}
	for _, l := range d.Labels {
		if reason := metric.CheckLabel(l); reason != metric.Applied {
			return reason, "a label has a control character, is not UTF-8 or is too long"
		}
	}
	if s.Outdated(time.Now()) {
		return metric.Outdated, "the gauge's timestamp is more than 5 minutes old"
	}
	return metric.Applied, ""
}

// canI is the command that says whether a user has the right that decides about a sample.
func (t trial) canI(from *metric.Sender, o *metric.Object, reason metric.Reason) string {
	if reason != metric.Pending || from == nil || from.Principal == nil {
		return ""
	}
	_, _, right := t.path.resolver.May(from, metric.Create, *o)
	scope := "--all-namespaces"
	if right.Namespace != "" {
		scope = "-n " + right.Namespace
	}
	return fmt.Sprintf("; kubectl auth can-i %s %s.%s %s --as=%s says it", metric.Create, "samples",
		"sluice.dev", scope, from.Principal.User)
}

// valueText is a sample's operation in words.
func valueText(s *metric.Sample) string {
	number := string(s.Number().Append(nil))
	switch {
	case s.Op == metric.Insert:
		return "adds the member " + strings.ToValidUTF8(string(s.Member), "\uFFFD")
	case s.Op == metric.Assign:
		return "sets it to " + number
	case s.Op == metric.Shift:
		return "shifts it by " + number
	case s.Rate != 0 && s.Rate != 1 && s.Op == metric.Observe:
		return "observes " + number + ", which counts " + string(metric.Float(s.Weight()).Append(nil)) + " times"
	case s.Op == metric.Observe:
		return "observes " + number
	case s.Rate != 0 && s.Rate != 1:
		return "adds " + number + " × " + string(metric.Float(s.Weight()).Append(nil)) + " (its sample rate)"
	}
	return "adds " + number
}

// cloned copies labels, which borrow the line.
func cloned(labels []metric.Label) []metric.Label {
	all := slices.Clone(labels)
	for i := range all {
		all[i].Key, all[i].Value = strings.Clone(all[i].Key), strings.Clone(all[i].Value)
	}
	return all
}
