package explain

import (
	"fmt"
	"math"
	"strconv"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"k8s.io/apimachinery/pkg/api/resource"
)

// This file does what the HorizontalPodAutoscaler controller does with one metric
// (kubernetes/pkg/controller/podautoscaler/replica_calculator.go, release 1.36), and writes down
// each step. Values are thousandths, rounded up, as there.

// DefaultTolerance is the controller's --horizontal-pod-autoscaler-tolerance by default.
const DefaultTolerance = 0.1

// Tolerances are the shares of its target by which an autoscaler's value may be below and above it without a change.
func Tolerances(a *inspect.Autoscaler) (down, up float64) {
	t := tolerancesOf(a)
	return t.down, t.up
}

// tolerances are the shares by which a ratio may be off 1 without a change.
type tolerances struct{ up, down float64 }

func (t tolerances) within(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

func tolerancesOf(a *inspect.Autoscaler) tolerances {
	return tolerances{up: toleranceOf(a.ScaleUp), down: toleranceOf(a.ScaleDown)}
}

func toleranceOf(r *inspect.ScalingRules) float64 {
	if r == nil || r.Tolerance == "" {
		return DefaultTolerance
	}
	if q, err := resource.ParseQuantity(r.Tolerance); err == nil {
		return q.AsApproximateFloat64()
	}
	return DefaultTolerance
}

// calculation is the arithmetic for one metric.
type calculation struct {
	facts   *Facts
	tol     tolerances
	current int32         // spec.replicas of the scale
	status  int32         // status.replicas of the scale
	out     *MetricReport // of the steps; may be nil
}

func (c *calculation) step(format string, args ...any) {
	if c.out == nil {
		return // the number alone is wanted
	}
	c.out.Steps = append(c.out.Steps, fmt.Sprintf(format, args...))
}

// propose returns the replicas that a metric asks for; false if it gives none.
func (c *calculation) propose(m *inspect.AutoscalerMetric, values []Value) (int32, bool) {
	target, err := resource.ParseQuantity(m.Target)
	if err != nil || target.MilliValue() <= 0 {
		c.step("the target %q is not above 0", m.Target)
		return 0, false
	}
	if m.Source == sourcePods {
		return c.ofPods(values, target.MilliValue())
	}
	usage := int64(0)
	for _, v := range values {
		if usage += v.Milli; usage < 0 {
			usage = math.MaxInt64
			break
		}
	}
	if m.TargetType == "AverageValue" {
		return c.perPod(usage, target.MilliValue())
	}
	return c.whole(usage, target.MilliValue())
}

// perPod divides a value by the replicas that are there.
func (c *calculation) perPod(usage, target int64) (int32, bool) {
	if c.status == 0 {
		c.step("%s per replica %s: %s", number(usage), number(target), replicas(ceiling(usage, target)))
		return ceiling(usage, target), true
	}
	ratio := float64(usage) / (float64(target) * float64(c.status))
	c.step("%s / %s = %s each, against a target of %s: ratio %s",
		number(usage), replicas(c.status), number(usage/int64(c.status)), number(target), ratioText(ratio))
	n := ceiling(usage, target)
	if c.tol.within(ratio) {
		return c.tolerated(c.status, n), true
	}
	c.step("%s / %s, rounded up: %s", number(usage), number(target), replicas(n))
	return n, true
}

// whole compares a value with the target and scales the ready pods by the ratio.
func (c *calculation) whole(usage, target int64) (int32, bool) {
	ratio := float64(usage) / float64(target)
	c.step("%s against a target of %s for all replicas together: ratio %s", number(usage),
		number(target), ratioText(ratio))
	if c.current == 0 {
		n := round(ratio)
		c.step("there are no replicas now; the ratio, rounded up: %s", replicas(n))
		return n, true
	}
	if c.tol.within(ratio) {
		return c.tolerated(c.current, round(ratio*float64(c.current))), true
	}
	if c.facts.Pods == nil {
		c.step("the number of ready pods is unknown; with all %d ready: %s", c.current,
			replicas(round(ratio*float64(c.current))))
		return round(ratio * float64(c.current)), true
	}
	ready := 0
	for _, p := range c.facts.Pods {
		if p.Phase == "Running" && p.Ready {
			ready++
		}
	}
	n := round(ratio * float64(ready))
	c.step("%s ready × %s, rounded up: %s", count(ready, "pod"), ratioText(ratio), replicas(n))
	return n, true
}

// tolerated is the present number, in the place of the one that the metric asks for.
func (c *calculation) tolerated(n, asked int32) int32 {
	if c.out != nil {
		c.out.strict = asked
	}
	c.step("within the tolerance (%s to %s): stays at %d", ratioText(1-c.tol.down), ratioText(1+c.tol.up), n)
	return n
}

// podGroups are the pods by what the controller makes of them.
type podGroups struct {
	values  map[string]int64
	ready   int // have a value
	unready []string
	missing []string
	ignored []string
}

func (c *calculation) groups(values []Value) podGroups {
	g := podGroups{values: map[string]int64{}}
	for _, v := range values {
		g.values[v.Object] = v.Milli
	}
	for _, p := range c.facts.Pods {
		_, has := g.values[p.Name]
		switch {
		case p.Deleting || p.Phase == "Failed":
			g.ignored = append(g.ignored, p.Name)
			delete(g.values, p.Name)
		case p.Phase == "Pending":
			g.unready = append(g.unready, p.Name)
			delete(g.values, p.Name)
		case !has:
			g.missing = append(g.missing, p.Name)
		default:
			g.ready++
		}
	}
	return g
}

func (g *podGroups) mean() int64 {
	if len(g.values) == 0 {
		return 0
	}
	sum := int64(0)
	for _, v := range g.values {
		sum += v
	}
	return sum / int64(len(g.values))
}

// ofPods compares the mean of the pods with the target. Pods without a value pull the ratio towards
// 1: they count as the target if the others are below it, and as 0 if they are above it.
func (c *calculation) ofPods(values []Value, target int64) (int32, bool) {
	if c.facts.Pods == nil {
		c.step("the target's pods are unknown, so pods without a value can't be counted")
		c.facts = &Facts{Pods: podsOf(values)}
	}
	g := c.groups(values)
	if len(g.values) == 0 {
		c.step("no pod that counts has a value: the controller changes nothing")
		return 0, false
	}
	ratio := float64(g.mean()) / float64(target)
	c.step("mean of %s: %s, against a target of %s: ratio %s", count(len(g.values), "pod"), number(g.mean()),
		number(target), ratioText(ratio))
	withUnready := len(g.unready) > 0 && ratio > 1
	if !withUnready && len(g.missing) == 0 {
		n := round(ratio * float64(g.ready))
		if c.tol.within(ratio) {
			return c.tolerated(c.current, n), true
		}
		c.step("%s × %s, rounded up: %s", count(g.ready, "pod"), ratioText(ratio), replicas(n))
		return n, true
	}
	counted := len(g.values)
	c.fill(&g, ratio, target, withUnready)
	if len(g.values) == counted { // the ratio is 1
		return c.tolerated(c.current, c.current), true
	}
	return c.filled(&g, ratio, target), true
}

// fill gives the pods without a value the value that the controller assumes.
func (c *calculation) fill(g *podGroups, ratio float64, target int64, withUnready bool) {
	assumed, named := int64(0), "0"
	if ratio < 1 {
		assumed, named = target, "the target"
	}
	if len(g.missing) > 0 && ratio != 1 {
		c.step("%s without a value: counted as %s, because the others are %s the target",
			count(len(g.missing), "pod"), named, map[bool]string{true: "below", false: "above"}[ratio < 1])
		for _, name := range g.missing {
			g.values[name] = assumed
		}
	}
	if withUnready {
		c.step("%s pending: counted as 0", count(len(g.unready), "pod"))
		for _, name := range g.unready {
			g.values[name] = 0
		}
	}
}

// filled is the proposal after fill.
func (c *calculation) filled(g *podGroups, before float64, target int64) int32 {
	ratio := float64(g.mean()) / float64(target)
	c.step("mean of %s with these: %s: ratio %s", count(len(g.values), "pod"), number(g.mean()), ratioText(ratio))
	switch {
	case c.tol.within(ratio):
		return c.tolerated(c.current, round(ratio*float64(len(g.values))))
	case before < 1 && ratio > 1, before > 1 && ratio < 1:
		c.step("the direction would change by pods without a value: stays at %d", c.current)
		return c.current
	}
	n := round(ratio * float64(len(g.values)))
	if ratio < 1 && n > c.current || ratio > 1 && n < c.current {
		c.step("%s × %s, rounded up, is %d, which is the other direction: stays at %d", count(len(g.values), "pod"),
			ratioText(ratio), n, c.current)
		return c.current
	}
	c.step("%s × %s, rounded up: %s", count(len(g.values), "pod"), ratioText(ratio), replicas(n))
	return n
}

// podsOf are the pods that values name, taken as running.
func podsOf(values []Value) []inspect.TargetPod {
	pods := make([]inspect.TargetPod, len(values))
	for i, v := range values {
		pods[i] = inspect.TargetPod{Name: v.Object, Phase: "Running", Ready: true}
	}
	return pods
}

func ceiling(usage, target int64) int32 { return round(float64(usage) / float64(target)) }

// round rounds up, within the range of replicas.
func round(n float64) int32 { return int32(min(math.Ceil(n), math.MaxInt32)) }

// number writes thousandths as Kubernetes does where it has to, and as people do where they fit.
func number(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64)
}

func ratioText(r float64) string {
	if r >= 100 {
		return fmt.Sprintf("%.0f", r)
	}
	return fmt.Sprintf("%.3g", r)
}

func replicas(n int32) string { return count(int(n), "replica") }

// count is "1 pod" or "2 pods".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
