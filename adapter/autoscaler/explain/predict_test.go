package explain

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// TestPredictsAsKubernetes holds predictions against decisions of the real controller's code.
func TestPredictsAsKubernetes(t *testing.T) {
	text, err := os.ReadFile("testdata/decisions-1.37.1.txt")
	must(t, err)
	autoscalers, syncs := 0, 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		autoscalers++
		fields := strings.Fields(line)
		f, memory := &Facts{Now: noon, Scale: &Scale{}}, &Memory{}
		a := &f.Autoscaler
		*a = inspect.Autoscaler{MinReplicas: number32(t, fields[0]), MaxReplicas: number32(t, fields[1]), DesiredReplicas: number32(t, fields[2]),
			ObservedGeneration: 1, ScaleUp: scalingRules(t, fields[3]), ScaleDown: scalingRules(t, fields[4]),
			Metrics: []inspect.AutoscalerMetric{{Source: "External", Name: "m", TargetType: "AverageValue", Target: "1"}}}
		memory.Wanted(a.DesiredReplicas, f.Now)
		for _, sync := range fields[5:] {
			var after, ask int64
			var want int32
			if _, err := fmt.Sscanf(sync, "%d:%d=%d", &after, &ask, &want); err != nil {
				t.Fatal(err)
			}
			syncs++
			f.Now = f.Now.Add(time.Duration(after)*time.Second + time.Millisecond)
			f.Scale.SpecReplicas, f.Scale.StatusReplicas = a.DesiredReplicas, a.DesiredReplicas
			f.Readings = []Reading{{Asked: true, Values: []Value{{Object: NoLabels, Milli: ask * 1000}}}}
			p := Predict(f, memory)
			if p.Replicas != want || p.Unknown != "" {
				t.Fatalf("%s\n%s: got %d %s", line, sync, p.Replicas, p.Unknown)
			}
			if want != int32(ask) && p.Held == "" {
				t.Fatalf("%s\n%s: nothing says what holds it", line, sync)
			}
			if by := want - a.DesiredReplicas; by != 0 {
				memory.Changed(a, by, f.Now)
			}
			a.DesiredReplicas = want
		}
	}
	if autoscalers != 1000 || syncs < 8000 {
		t.Fatalf("%d autoscalers, %d syncs", autoscalers, syncs)
	}
}

func number32(t *testing.T, text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	must(t, err)
	return int32(n)
}

// scalingRules reads "10,Max,Pods/2/5,Percent/300/5". The tolerance is 0, so that values ask for any number.
func scalingRules(t *testing.T, text string) *inspect.ScalingRules {
	fields := strings.Split(text, ",")
	window := number32(t, fields[0])
	r := &inspect.ScalingRules{StabilizationWindowSeconds: &window, SelectPolicy: fields[1], Tolerance: "0"}
	for _, field := range fields[2:] {
		parts := strings.Split(field, "/")
		r.Policies = append(r.Policies, inspect.ScalingPolicy{Type: parts[0], Value: number32(t, parts[1]), PeriodSeconds: number32(t, parts[2])})
	}
	return r
}

// The moment that a prediction names for the end of a limit is the first at which more is allowed.
func TestHeldUntil(t *testing.T) {
	window := int32(60)
	for name, one := range map[string]struct {
		ask    int64
		up     *inspect.ScalingRules
		down   *inspect.ScalingRules
		before func(*Memory)
		want   int32
		until  time.Duration // 0: no end
	}{
		"budget of a policy": {ask: 20, want: 5, until: 5 * time.Second,
			up:     &inspect.ScalingRules{Policies: []inspect.ScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 15}}},
			before: func(m *Memory) { m.Changed(&inspect.Autoscaler{}, 4, noon.Add(-10*time.Second)) }},
		"scale-down stabilization": {ask: 1, want: 5, until: 40 * time.Second,
			down:   &inspect.ScalingRules{StabilizationWindowSeconds: &window, Policies: defaultScaleDown.Policies},
			before: func(m *Memory) { m.Wanted(5, noon.Add(-20*time.Second)) }},
		"scale-up stabilization": {ask: 6, want: 5, until: 40 * time.Second,
			up:     &inspect.ScalingRules{StabilizationWindowSeconds: &window, Policies: inspect.DefaultScaleUp},
			before: func(m *Memory) { m.Wanted(5, noon.Add(-20*time.Second)) }},
		"maximum":  {ask: 40, want: 9, before: func(*Memory) {}},
		"disabled": {ask: 9, want: 5, up: &inspect.ScalingRules{SelectPolicy: "Disabled", Policies: inspect.DefaultScaleUp}, before: func(*Memory) {}},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &Memory{}
			one.before(memory)
			f := &Facts{Now: noon, Scale: &Scale{SpecReplicas: 5, StatusReplicas: 5}, Readings: []Reading{{Asked: true, Values: []Value{{Milli: one.ask * 1000}}}}}
			f.Autoscaler = inspect.Autoscaler{MinReplicas: 1, MaxReplicas: 9, DesiredReplicas: 5, ObservedGeneration: 1, ScaleUp: one.up, ScaleDown: one.down,
				Metrics: []inspect.AutoscalerMetric{{Source: "External", Name: "m", TargetType: "AverageValue", Target: "1"}}}
			p := Predict(f, memory)
			until := time.Duration(0)
			if !p.Until.IsZero() {
				until = p.Until.Sub(noon)
			}
			if p.Replicas != one.want || until != one.until || p.Held == "" {
				t.Fatalf("%d replicas until %v (%s), want %d until %v", p.Replicas, until, p.Held, one.want, one.until)
			}
			if p.Until.IsZero() {
				return
			}
			f.Now = p.Until
			if p := Predict(f, memory); p.Replicas == one.want {
				t.Errorf("still %d at the end", p.Replicas)
			}
		})
	}
}

// A metric without a value forbids the others to scale down, and nothing else.
func TestAMetricWithoutAValueForbidsAScaleDown(t *testing.T) {
	for ask, unknown := range map[int64]bool{4: true, 5: false, 6: false} {
		f := &Facts{Now: noon, Scale: &Scale{SpecReplicas: 5, StatusReplicas: 5},
			Readings: []Reading{{Asked: true, Values: []Value{{Milli: ask * 1000}}}, {Asked: true, Code: 404, Fault: "absent"}}}
		f.Autoscaler = inspect.Autoscaler{MinReplicas: 1, MaxReplicas: 9, DesiredReplicas: 5, ObservedGeneration: 1, Metrics: []inspect.AutoscalerMetric{
			{Source: "External", Name: "m", TargetType: "AverageValue", Target: "1"}, {Source: "External", Name: "broken", TargetType: "AverageValue", Target: "1"}}}
		if p := Predict(f, &Memory{}); (p.Unknown != "") != unknown || !unknown && p.Replicas != int32(ask) {
			t.Errorf("values that ask for %d: %d replicas, unknown: %q", ask, p.Replicas, p.Unknown)
		}
	}
}
