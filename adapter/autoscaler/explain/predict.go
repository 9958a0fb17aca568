package explain

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"k8s.io/apimachinery/pkg/api/resource"
)

// This file predicts what the controller would set at a sync right now, by the values of this moment and by
// what the controller remembers: recent recommendations and changes
// (kubernetes/pkg/controller/podautoscaler/horizontal.go, release 1.37).

// Prediction is what the controller would set.
type Prediction struct {
	// Replicas are those that it would set; equal to the present ones if it would change nothing.
	Replicas int32
	// Unknown says why it can't be predicted; empty: it can.
	Unknown string
	// Held says which limit keeps the values from being followed, or followed in full; empty: none does.
	// Until is when that limit ends by itself; zero: it doesn't.
	Held  string
	Until time.Time
	// Because is the metric that decides, with its value.
	Because string
}

// Memory is what the controller remembers of an autoscaler, as far as it can be told from outside. The zero
// value remembers nothing.
type Memory struct {
	wants      []wanted
	ups, downs []change
}

// wanted are the replicas that the metrics asked for from one time to another.
type wanted struct {
	last        time.Time
	least, most int32
}

// change is a number of replicas that the controller added (or removed, below 0).
type change struct {
	at       time.Time
	by       int32
	outdated bool
}

// memorySpan is the longest stabilization window that the API server admits. maxRemembered bounds what is
// remembered of it: beyond, the two oldest entries become one that holds for as long as either.
const (
	memorySpan    = time.Hour
	maxRemembered = 120
)

// Wanted remembers the replicas that the metrics ask for at a time, before any limit. The controller has seen
// a part of these at its syncs, so a window that is judged by all of them ends no earlier than the
// controller's.
func (m *Memory) Wanted(n int32, now time.Time) {
	if last := len(m.wants) - 1; last >= 0 && m.wants[last].least == n && m.wants[last].most == n {
		m.wants[last].last = now
		return
	}
	m.wants = append(m.wants, wanted{now, n, n})
	if now.Sub(m.wants[0].last) > memorySpan {
		m.wants = m.wants[1:]
	}
	if len(m.wants) > maxRemembered {
		a, b := m.wants[0], &m.wants[1]
		b.least, b.most = min(a.least, b.least), max(a.most, b.most)
		m.wants = m.wants[1:]
	}
}

// Changed remembers that the controller has changed an autoscaler's replicas. As the controller does, it
// overwrites a change in the same direction that is older than the periods of that direction's policies, though
// those of the other direction may be longer.
func (m *Memory) Changed(a *inspect.Autoscaler, by int32, now time.Time) {
	rules, same := orDefault(a.ScaleUp, &defaultScaleUp), &m.ups
	if by < 0 {
		rules, same = orDefault(a.ScaleDown, &defaultScaleDown), &m.downs
	}
	longest := time.Duration(0)
	for _, policy := range rules.Policies {
		longest = max(longest, time.Duration(policy.PeriodSeconds)*time.Second)
	}
	place := -1
	for i := range *same {
		c := &(*same)[i]
		if c.outdated = c.outdated || c.at.Before(now.Add(-longest)); c.outdated {
			place = i
		}
	}
	switch {
	case place >= 0:
		(*same)[place] = change{at: now, by: by}
	case len(*same) < maxRemembered:
		*same = append(*same, change{at: now, by: by})
	}
}

// Predict predicts a sync of the controller at f.Now. It needs Now, Autoscaler, Scale, Pods and Readings.
func Predict(f *Facts, memory *Memory) Prediction {
	a, current := &f.Autoscaler, f.replicasNow()
	out := Prediction{Replicas: current}
	switch {
	case f.cannotScale():
		out.Unknown = "the controller can't read or set the target's number of replicas"
		return out
	case a.ObservedGeneration == 0:
		out.Unknown = "the controller has not looked at the autoscaler yet"
		return out
	case current == 0 && !a.ScaledToZero():
		out.Unknown = "the target has 0 replicas by its own spec, so the autoscaler is disabled"
		return out
	case current > a.MaxReplicas, current < a.MinReplicas:
		out.Unknown = fmt.Sprintf("the target has %s, outside minReplicas and maxReplicas; the controller sets them at its next sync", replicas(current))
		return out
	}
	n, because, unknown := f.highestOf(current)
	if out.Because = because; unknown != "" {
		out.Unknown = unknown
		return out
	}
	memory.Wanted(n, f.Now)
	p := predictor{f: f, memory: memory, current: current, out: &out}
	out.Replicas = p.limited(p.stabilized(n))
	return out
}

// highestOf is the highest proposal of all metrics, with its metric; or why there is none.
func (f *Facts) highestOf(current int32) (n int32, because, unknown string) {
	n, broken := -1, ""
	for i := range f.Autoscaler.Metrics {
		m := &f.Autoscaler.Metrics[i]
		report := f.proposal(i)
		if GroupOf(m.Source) == "" || !f.reading(i).Asked {
			report.Proposal = f.lastProposal(m)
		}
		if report.Proposal == nil {
			broken = fmt.Sprintf("%s metric %q has no value", m.Source, m.Name)
			continue
		}
		if *report.Proposal > n {
			n, because = *report.Proposal, fmt.Sprintf("%s metric %q is %s, target %s", m.Source, m.Name,
				f.valueText(i), m.Target)
		}
	}
	if n < 0 {
		return 0, "", broken
	}
	if broken != "" && n < current {
		return 0, "", broken + ", so the controller doesn't scale down"
	}
	return n, because, ""
}

// lastProposal is the proposal of a metric that Sluice does not answer, by the value of the controller's last
// sync; nil: there is none.
func (f *Facts) lastProposal(m *inspect.AutoscalerMetric) *int32 {
	value, err := resource.ParseQuantity(m.Current)
	target, bad := resource.ParseQuantity(m.Target)
	if err != nil || bad != nil || target.MilliValue() <= 0 {
		return nil
	}
	ratio, current := float64(value.MilliValue())/float64(target.MilliValue()), f.replicasNow()
	n := current
	if !tolerancesOf(&f.Autoscaler).within(ratio) {
		n = round(ratio * float64(current))
	}
	return &n
}

// valueText is the value of a metric for people: the sum, or of pods the mean.
func (f *Facts) valueText(i int) string {
	values := f.reading(i).Values
	if len(values) == 0 {
		return f.Autoscaler.Metrics[i].Current
	}
	if f.Autoscaler.Metrics[i].Source == sourcePods {
		return number(meanOf(values)) + " per pod"
	}
	sum := int64(0)
	for _, v := range values {
		sum += v.Milli
	}
	return number(sum)
}

// predictor applies the limits of the controller.
type predictor struct {
	f       *Facts
	memory  *Memory
	current int32
	out     *Prediction
}

// stabilized brings a recommendation into the range of those of the stabilization windows.
func (p *predictor) stabilized(n int32) int32 {
	a := &p.f.Autoscaler
	up := p.within(seconds(a.ScaleUp, 0), func(w *wanted) int32 { return w.least }, n, true)
	down := p.within(seconds(a.ScaleDown, 300), func(w *wanted) int32 { return w.most }, n, false)
	stable := min(max(p.current, up), down)
	if stable != n {
		direction := "scaleUp"
		if n < p.current {
			direction = "scaleDown"
		}
		p.hold(fmt.Sprintf("the values ask for %d; behavior.%s.stabilizationWindowSeconds waits", n, direction),
			p.stableAt(n))
	}
	return stable
}

// within is the lowest (or highest) recommendation of a window, n included.
func (p *predictor) within(window int32, of func(*wanted) int32, n int32, lowest bool) int32 {
	cutoff := p.f.Now.Add(-time.Duration(window) * time.Second)
	for i := range p.memory.wants {
		if w := &p.memory.wants[i]; w.last.After(cutoff) {
			if lowest {
				n = min(n, of(w))
			} else {
				n = max(n, of(w))
			}
		}
	}
	return n
}

// stableAt is when the recommendations that keep n from being followed have left their window.
func (p *predictor) stableAt(n int32) (at time.Time) {
	a := &p.f.Autoscaler
	up, down := time.Duration(seconds(a.ScaleUp, 0))*time.Second, time.Duration(seconds(a.ScaleDown, 300))*time.Second
	for _, w := range p.memory.wants {
		if n > p.current && w.least < n {
			at = later(at, w.last.Add(up))
		}
		if n < p.current && w.most > n {
			if end := w.last.Add(down); end.After(p.f.Now) && (at.IsZero() || end.Before(at)) {
				at = end // the first that leaves may allow a part
			}
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// limited applies the policies' budgets and the bounds.
func (p *predictor) limited(n int32) int32 {
	a := &p.f.Autoscaler
	switch {
	case n > p.current:
		rules := orDefault(a.ScaleUp, &defaultScaleUp)
		most := max(limit(rules, p.current, p.upReach, true), p.current)
		if n > most && a.MaxReplicas > most {
			p.hold(fmt.Sprintf("the values ask for %d; behavior.scaleUp allows %d now", n, most), p.budgetAt(rules))
		} else if n > a.MaxReplicas {
			p.hold(fmt.Sprintf("the values ask for %d; maxReplicas is %d", n, a.MaxReplicas), time.Time{})
		}
		return min(n, most, a.MaxReplicas)
	case n < p.current:
		rules := orDefault(a.ScaleDown, &defaultScaleDown)
		least := min(limit(rules, p.current, p.downReach, false), p.current)
		if n < least && a.MinReplicas < least {
			p.hold(fmt.Sprintf("the values ask for %d; behavior.scaleDown allows %d now", n, least), p.budgetAt(rules))
		} else if n < a.MinReplicas {
			p.hold(fmt.Sprintf("the values ask for %d; minReplicas is %d", n, a.MinReplicas), time.Time{})
		}
		return max(n, least, a.MinReplicas)
	}
	return n
}

// The defaults of spec.behavior (autoscaling/v2). Nudges write those of scaling up out.
var (
	defaultScaleUp   = inspect.ScalingRules{Policies: inspect.DefaultScaleUp}
	defaultScaleDown = inspect.ScalingRules{Policies: []inspect.ScalingPolicy{{Type: "Percent",
		Value: 100, PeriodSeconds: 15}}}
)

func orDefault(r, otherwise *inspect.ScalingRules) *inspect.ScalingRules {
	if r == nil {
		return otherwise
	}
	return r
}

// upReach is the highest number of replicas that a policy allows in its period.
func (p *predictor) upReach(scalingPolicy inspect.ScalingPolicy) int32 {
	start := p.startOf(scalingPolicy)
	if scalingPolicy.Type == "Pods" {
		return start + scalingPolicy.Value
	}
	return int32(min(math.Ceil(float64(start)*(1+float64(scalingPolicy.Value)/100)), math.MaxInt32))
}

// downReach is the lowest number of replicas that a policy allows in its period.
func (p *predictor) downReach(scalingPolicy inspect.ScalingPolicy) int32 {
	start := p.startOf(scalingPolicy)
	if scalingPolicy.Type == "Pods" {
		return start - scalingPolicy.Value
	}
	return int32(float64(start) * (1 - float64(scalingPolicy.Value)/100))
}

// startOf is the number of replicas at the start of a policy's period.
func (p *predictor) startOf(scalingPolicy inspect.ScalingPolicy) int32 {
	start, cutoff := p.current, p.f.Now.Add(-time.Duration(scalingPolicy.PeriodSeconds)*time.Second)
	for _, all := range [][]change{p.memory.ups, p.memory.downs} {
		for _, c := range all {
			if c.at.After(cutoff) {
				start -= c.by
			}
		}
	}
	return start
}

// budgetAt is when the first change leaves a policy's period, which gives a part of the budget back.
func (p *predictor) budgetAt(rules *inspect.ScalingRules) (at time.Time) {
	all := p.memory.ups
	if rules == p.f.Autoscaler.ScaleDown || rules == &defaultScaleDown {
		all = p.memory.downs
	}
	for _, policy := range rules.Policies {
		for _, c := range all {
			end := c.at.Add(time.Duration(policy.PeriodSeconds) * time.Second)
			if end.After(p.f.Now) && (at.IsZero() || end.Before(at)) {
				at = end
			}
		}
	}
	return at
}

// hold notes a limit, with the earliest end of all.
func (p *predictor) hold(why string, until time.Time) {
	p.out.Held = strings.TrimPrefix(p.out.Held+"; "+why, "; ")
	if !until.IsZero() && (p.out.Until.IsZero() || until.Before(p.out.Until)) {
		p.out.Until = until
	}
}
