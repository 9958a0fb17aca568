package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/resource"
)

// starting is how long a pod may take to push for the first time.
const starting = time.Minute

// absence is the reason why a pod has no value.
type absence struct {
	why      string // the end of a sentence about the pod
	rejected bool   // what it pushed was rejected
	// unscraped: it announces an endpoint that cannot be scraped.
	unscraped bool
	// excused: nobody expects a value of the pod now.
	excused bool
	// ignored: the controller doesn't count the pod as one without a value.
	ignored bool
	// agent is why the agent of the pod's node is not heard; empty: it is, or is not the reason.
	agent Cause
}

// absenceOf says why a pod has no value, as far as the facts tell.
func (f *Facts) absenceOf(m *inspect.AutoscalerMetric, p *inspect.TargetPod) absence {
	switch {
	case p.Deleting:
		return absence{why: "is being deleted; the controller ignores it", excused: true, ignored: true}
	case p.Phase == "Failed", p.Phase == "Succeeded":
		return absence{why: "has ended", excused: true, ignored: true}
	case p.Phase == "Pending":
		return absence{why: "is pending, so it cannot push", excused: true, ignored: true}
	}
	rejected := f.rejectionOf(p.Name, m)
	if rejected != nil && f.Now.Sub(rejected.Last) < recent {
		return absence{why: "pushed, but " + wordsOfRejection(rejected), rejected: true}
	}
	t := f.unscraped(p.Name, m)
	if t != nil && (t.State == inspect.TargetInvalid || !t.LastSuccess.IsZero()) { // it does not just start
		return absence{why: wordsOfTarget(t, metric.BareName(m.Name)), unscraped: true}
	}
	if age := f.Now.Sub(p.Started); !p.Started.IsZero() && age < starting {
		return absence{why: "started " + age.Round(time.Second).String() + " ago and has not pushed yet", excused: true}
	}
	if !p.Ready {
		return absence{why: "is not ready, and has not pushed it", excused: true}
	}
	if t != nil {
		return absence{why: wordsOfTarget(t, metric.BareName(m.Name)), unscraped: true}
	}
	if o := f.operandAbsentOf(m, p.Name); o != nil {
		return absence{why: fmt.Sprintf("has no value of the operand %s (%s)", o.Name, o.Metric)}
	}
	if cause := f.agentFault(p); cause != "" {
		return absence{why: wordsOfAgents[cause], agent: cause}
	}
	why := "has not pushed it, or its value has expired"
	if rejected != nil {
		why += "; " + age(f.Now.Sub(rejected.Last)) + " ago it pushed, but " + wordsOfRejection(rejected)
	}
	return absence{why: why}
}

// wordsOfRejection are those of the record without the advice at the end of limits: explain has
// commands for it.
func wordsOfRejection(r *inspect.Rejection) string {
	message, _, _ := strings.Cut(r.Message, ". Raise sluice.dev/")
	if r.Reason == byLimit && strings.Contains(message, " is rejected: ") {
		return message
	}
	return "was rejected (" + r.Reason + "): " + message
}

// rejectionOf is the newest rejection of a metric that a pod pushed; nil: there is none.
func (f *Facts) rejectionOf(pod string, m *inspect.AutoscalerMetric) *inspect.Rejection {
	if r := f.newestRejection(rejectedSeries{pod, metric.BareName(m.Name), false}); r != nil {
		return r
	}
	return f.newestRejection(rejectedSeries{pod, "", false})
}

// newestRejection is the newest one of a pod and metric; nil: there is none.
func (f *Facts) newestRejection(of rejectedSeries) *inspect.Rejection {
	if f.newest == nil {
		f.newest = map[rejectedSeries]*inspect.Rejection{}
		for i := range f.Rejections {
			r := &f.Rejections[i]
			key := rejectedSeries{strings.TrimPrefix(r.Sender, f.Autoscaler.Namespace+"/"), r.Metric, false}
			f.noteRejection(key, r)
			if key.byLimit = r.Reason == byLimit; key.byLimit {
				f.noteRejection(key, r)
			}
		}
	}
	return f.newest[of]
}

func (f *Facts) noteRejection(key rejectedSeries, r *inspect.Rejection) {
	if before := f.newest[key]; before == nil || r.Last.After(before.Last) {
		f.newest[key] = r
	}
}

// rejectedSeries identifies what a pod pushed and Sluice rejected. An empty metric: its name could not be read.
type rejectedSeries struct {
	pod, metric string
	byLimit     bool // by a limit; false: for any reason
}

// podWithout is a pod that has no value, though the controller counts on one.
type podWithout struct {
	name, node string
	absence
}

// withoutValue lists the pods of a metric that the controller counts as pods without a value, rejected
// ones first.
func (f *Facts) withoutValue(i int) (all []podWithout) {
	has := map[string]bool{}
	for _, v := range f.reading(i).Values {
		has[v.Object] = true
	}
	for k := range f.Pods {
		p := &f.Pods[k]
		if has[p.Name] {
			continue
		}
		if absence := f.absenceOf(&f.Autoscaler.Metrics[i], p); !absence.ignored {
			all = append(all, podWithout{p.Name, p.Node, absence})
		}
	}
	slices.SortStableFunc(all, func(a, b podWithout) int { return rank(&a.absence) - rank(&b.absence) })
	return all
}

func rank(a *absence) int {
	switch {
	case a.rejected:
		return 0
	case a.excused:
		return 2
	}
	return 1
}

// effect is what pods without a value do to the decision of the controller.
type effect struct {
	wants int32 // replicas with the values that the controller assumes
	// like are the replicas if these pods had the mean of the others; least and most those with any
	// value.
	like, least, most int32
}

// differs reports whether a value of these pods could change the decision.
func (e *effect) differs() bool { return e.like != e.wants || e.least != e.wants || e.most != e.wants }

func (e *effect) String() string {
	if e.like != e.wants {
		return fmt.Sprintf("so it wants %s; if they had the mean of the others, it would want %d", replicas(e.wants), e.like)
	}
	return fmt.Sprintf("so it wants %s; with their values it may want %d to %d", replicas(e.wants), min(e.least, e.wants),
		max(e.most, e.wants))
}

// effectOf computes the effect of pods without a value of metric i, whose replicas of all metrics are
// reported. The proposal of a metric grows with each value, so the extremes are those of the replicas.
func (f *Facts) effectOf(i int, pods []podWithout, metrics []MetricReport) effect {
	values := f.reading(i).Values
	mean := meanOf(values)
	with := func(milli int64) int32 { return f.wantedWith(i, pods, milli, metrics) }
	return effect{wants: f.wanted(metrics), like: with(mean), least: with(min(0, mean)),
		most: with(highest(len(values) + len(pods)))}
}

// highest is a value so large that the sum of n of them just stays in range.
func highest(n int) int64 { return math.MaxInt64 / int64(4*max(n, 1)) }

// wantedWith is the number of replicas that the controller sets if some pods have another value of
// metric i.
func (f *Facts) wantedWith(i int, pods []podWithout, milli int64, metrics []MetricReport) int32 {
	all := slices.Clone(f.reading(i).Values)
	at := make(map[string]int, len(all))
	for k := range all {
		at[all[k].Object] = k
	}
	for _, p := range pods {
		if k, has := at[p.name]; has {
			all[k].Milli = milli
		} else {
			all = append(all, Value{Object: p.name, Milli: milli})
		}
	}
	reports := slices.Clone(metrics)
	reports[i] = MetricReport{Source: metrics[i].Source, Name: metrics[i].Name}
	if n, ok := f.calculation(nil).propose(&f.Autoscaler.Metrics[i], all); ok {
		reports[i].Proposal = &n
	}
	return f.wanted(reports)
}

// wanted is the number of replicas that the controller sets.
func (f *Facts) wanted(metrics []MetricReport) int32 {
	if d := f.decide(metrics); d.Replicas != nil {
		return *d.Replicas
	}
	return f.replicasNow()
}

// judgePods looks for pods without a value beside others that have one. If their values may change what
// the controller decides, it is a fault.
func (f *Facts) judgePods(i int, metrics []MetricReport) *Finding {
	m := &f.Autoscaler.Metrics[i]
	if m.Source != sourcePods || metrics[i].Fault != "" || len(f.reading(i).Values) == 0 {
		return nil
	}
	all := f.withoutValue(i)
	if len(all) == 0 {
		return nil
	}
	out := &Finding{Cause: PodsMissing, Metric: m.Name, Warning: true, Remedy: f.toAdmit(m, all),
		Text: fmt.Sprintf("%d of %s without a value: %s. The controller assumes a value for them (see the arithmetic)",
			len(all), count(len(f.Pods), "pod"), wordsOf(all))}
	if slices.ContainsFunc(all, func(p podWithout) bool { return p.unscraped }) {
		out.Cause, out.Remedy = NotScraped, f.toScrape()
		if all[0].rejected {
			out.Remedy = append(out.Remedy, f.toAdmit(m, all)...)
		}
	}
	if effect, held := f.heldBack(i, all, metrics); held {
		out.Warning = false
		out.Text = fmt.Sprintf("%d of %s without a value: %s. The controller assumes %s for them (see the arithmetic), %s",
			len(all), count(len(f.Pods), "pod"), wordsOf(all), f.assumed(i), effect.String())
	}
	return out
}

// heldBack reports whether pods that should have a value change, or may change, the decision.
func (f *Facts) heldBack(i int, all []podWithout, metrics []MetricReport) (effect, bool) {
	expected := slices.DeleteFunc(slices.Clone(all), func(p podWithout) bool { return p.excused })
	if len(expected) == 0 {
		return effect{}, false
	}
	e := f.effectOf(i, expected, metrics)
	return e, e.differs()
}

// assumed is the value that the controller assumes for pods that have none.
func (f *Facts) assumed(i int) string {
	target, err := resource.ParseQuantity(f.Autoscaler.Metrics[i].Target)
	switch mean := meanOf(f.reading(i).Values); {
	case err != nil, mean == target.MilliValue():
		return "no value"
	case mean < target.MilliValue():
		return "the target"
	}
	return "0"
}

// meanOf is the mean of some values, in thousandths.
func meanOf(values []Value) int64 {
	sum := int64(0)
	for _, v := range values {
		sum += v.Milli
	}
	return sum / int64(len(values))
}

// wordsOf names some of the pods, with the reason of each.
func wordsOf(all []podWithout) string {
	const most = 3
	var words []string
	for _, p := range all[:min(len(all), most)] {
		words = append(words, p.name+" "+p.why)
	}
	text := strings.Join(words, "; ")
	if len(all) > most {
		text += fmt.Sprintf("; and %d more", len(all)-most)
	}
	return text
}

// proposal reports on a metric without the steps and values that are for people.
func (f *Facts) proposal(i int) MetricReport {
	m, reading := &f.Autoscaler.Metrics[i], f.reading(i)
	out := MetricReport{Source: m.Source, Name: m.Name, Foreign: GroupOf(m.Source) == "", Fault: reading.Fault}
	if n, ok := f.calculation(nil).propose(m, reading.Values); ok && !out.Foreign && reading.Asked && out.Fault == "" {
		out.Proposal = &n
	}
	return out
}

// Held is what holds an autoscaler back at one of its metrics.
type Held struct {
	// Why is a sentence; empty: nothing does.
	Why string
	// Without are some of the pods without a value.
	Without []inspect.PodWithout
}

// HeldBack finds the metrics at which pods without a value, or with rejected series, hold an autoscaler
// back, in the order of its metrics. It needs Now, Autoscaler, Pods, Readings, Rejections and, if a limit rejects one of
// the metrics, Limits.
func HeldBack(f *Facts) []Held {
	all := make([]Held, len(f.Autoscaler.Metrics))
	metrics := make([]MetricReport, len(all))
	for i := range metrics {
		metrics[i] = f.proposal(i)
	}
	for i := range all {
		if m := &f.Autoscaler.Metrics[i]; m.Source != sourcePods || metrics[i].Fault != "" || len(f.reading(i).Values) == 0 {
			continue
		}
		pods := f.withoutValue(i)
		for _, pod := range pods[:min(len(pods), inspect.MaxWithout)] {
			all[i].Without = append(all[i].Without, inspect.PodWithout{Name: pod.name, Why: pod.why, Refused: pod.rejected})
		}
		if effect, held := f.heldBack(i, pods, metrics); held {
			all[i].Why = fmt.Sprintf("%d of %s without a value (%s); the controller assumes %s for them, %s",
				len(pods), count(len(f.Pods), "pod"), wordsOf(pods), f.assumed(i), effect.String())
		}
		if why := f.heldBackBySeries(i, metrics); why != "" {
			all[i].Why = strings.TrimPrefix(all[i].Why+"; "+why, "; ")
		}
	}
	return all
}

// heldBackBySeries says that series which a limit rejects may change the decision; empty: they don't.
func (f *Facts) heldBackBySeries(i int, metrics []MetricReport) string {
	pods := f.incomplete(i)
	if len(pods) == 0 {
		return ""
	}
	wants, most := f.wanted(metrics), f.mostWith(i, pods, metrics)
	if most <= wants {
		return ""
	}
	return fmt.Sprintf("the value of %s is incomplete (%s); the controller wants %s, and with all series it may want up to %d",
		f.share(i, pods), wordsOf(pods), replicas(wants), most)
}
