package explain

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// TestReplicasAsKubernetes holds the arithmetic against answers of the real controller's code.
func TestReplicasAsKubernetes(t *testing.T) {
	text, err := os.ReadFile("testdata/replicas-1.36.3.txt")
	must(t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		f, want := question(t, strings.Fields(line))
		got := "error"
		if r := Autoscaler(f); r.Metrics[0].Proposal != nil {
			got = strconv.Itoa(int(*r.Metrics[0].Proposal))
		}
		if got != want {
			t.Errorf("%s\n%d: got %s", line, n, got)
		}
	}
	if n < 600 {
		t.Fatalf("%d questions", n)
	}
}

// question reads a line of the file.
func question(t *testing.T, fields []string) (f *Facts, want string) {
	t.Helper()
	if len(fields) != 10 {
		t.Fatalf("%q has %d fields", fields, len(fields))
	}
	f = &Facts{Now: noon, Scale: &Scale{}, Pods: []inspect.TargetPod{}}
	rules := func(tolerance string) *inspect.ScalingRules { return &inspect.ScalingRules{Tolerance: tolerance} }
	f.Autoscaler = inspect.Autoscaler{Namespace: "n", Name: "a", MinReplicas: 1, MaxReplicas: 1000,
		ScaleUp: rules(fields[5]), ScaleDown: rules(fields[6]),
		Metrics: []inspect.AutoscalerMetric{{Source: fields[0], Name: "m", TargetType: fields[1], Target: fields[2]}}}
	if _, err := fmt.Sscan(fields[3], &f.Scale.SpecReplicas); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(fields[4], &f.Scale.StatusReplicas); err != nil {
		t.Fatal(err)
	}
	for i, state := range fields[7] {
		p := inspect.TargetPod{Name: fmt.Sprintf("p%d", i), Phase: "Running", Ready: state == 'R' || state == 'D', Deleting: state == 'D' || state == 'd'}
		switch state {
		case 'P':
			p.Phase = "Pending"
		case 'F':
			p.Phase = "Failed"
		}
		f.Pods = append(f.Pods, p)
	}
	reading := Reading{Asked: true}
	for pair := range strings.SplitSeq(fields[8], ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			milli, err := strconv.ParseInt(value, 10, 64)
			must(t, err)
			reading.Values = append(reading.Values, Value{Object: name, Milli: milli})
		}
	}
	f.Readings = []Reading{reading}
	return f, fields[9]
}

func TestDecision(t *testing.T) {
	pods4 := []inspect.ScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 15}, {Type: "Percent", Value: 100, PeriodSeconds: 15}}
	for _, c := range []struct {
		name              string
		current, min, max int32
		proposals         []int32 // below 0: no value
		up, down          *inspect.ScalingRules
		want              int32 // -1: nothing changes
	}{
		{"the highest wins", 3, 1, 10, []int32{2, 5}, nil, nil, 5},
		{"a metric without a value forbids to scale down", 3, 1, 10, []int32{2, -1}, nil, nil, -1},
		{"but not to scale up", 3, 1, 10, []int32{5, -1}, nil, nil, 5},
		{"no metric has a value", 3, 1, 10, []int32{-1, -1}, nil, nil, -1},
		{"maxReplicas", 8, 1, 10, []int32{40}, nil, nil, 10},
		{"minReplicas", 8, 4, 10, []int32{1}, nil, nil, 4},
		{"twice the present number", 5, 1, 100, []int32{40}, nil, nil, 10},
		{"or four", 1, 1, 100, []int32{40}, nil, nil, 4},
		{"behavior up", 1, 1, 100, []int32{40}, &inspect.ScalingRules{Policies: pods4}, &inspect.ScalingRules{Policies: pods4}, 5},
		{"behavior up, Min", 10, 1, 100, []int32{40}, &inspect.ScalingRules{Policies: pods4, SelectPolicy: "Min"}, nil, 14},
		{"behavior down", 10, 1, 100, []int32{1}, nil, &inspect.ScalingRules{Policies: []inspect.ScalingPolicy{{Type: "Percent", Value: 10}}}, 9},
		{"Disabled", 10, 1, 100, []int32{1}, nil, &inspect.ScalingRules{SelectPolicy: "Disabled", Policies: pods4}, 10},
		{"above maxReplicas", 12, 1, 10, []int32{20}, nil, nil, 10},
		{"below minReplicas", 1, 3, 10, []int32{1}, nil, nil, 3},
		{"zero by its own spec", 0, 1, 10, []int32{5}, nil, nil, -1},
	} {
		f := &Facts{Scale: &Scale{SpecReplicas: c.current}, Autoscaler: inspect.Autoscaler{MinReplicas: c.min, MaxReplicas: c.max, ScaleUp: c.up, ScaleDown: c.down}}
		var metrics []MetricReport
		for _, p := range c.proposals {
			m := MetricReport{Name: "m"}
			if p >= 0 {
				m.Proposal = &p
			}
			metrics = append(metrics, m)
		}
		got := int32(-1)
		if d := f.decide(metrics); d.Replicas != nil {
			got = *d.Replicas
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
