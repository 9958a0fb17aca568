package explain

import (
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// The commands raise each maximum that is too low, and no other.
func TestToRaise(t *testing.T) {
	pod := func(metrics, series int) inspect.Limit {
		return inspect.Limit{Of: inspect.Reference{Resource: "pods", Namespace: "shop", Name: "web-1"}, MaxMetrics: 5, MaxSeries: 100,
			WantedMetrics: metrics, WantedSeries: series, Source: "some"}
	}
	entry := func(kind, metrics, series string) LimitEntry {
		max := map[string]string{}
		for name, value := range map[string]string{limitOfMetrics: metrics, limitOfSeries: series} {
			if value != "" {
				max[name] = value
			}
		}
		return LimitEntry{kind, max}
	}
	m := &inspect.AutoscalerMetric{Source: "Pods", Name: "busy"}
	for name, c := range map[string]struct {
		limits []inspect.Limit
		ranges []LimitRange
		want   []string
	}{
		"nothing is known": {nil, nil, []string{"sluice list limits -n shop",
			"kubectl edit limitrange -n shop  # type sluice.dev/Pod: raises sluice.dev/metrics or sluice.dev/series (docs/limits.md)"}},
		"LimitRanges may not be read": {[]inspect.Limit{pod(7, 9)}, nil, []string{"sluice list limits -n shop",
			`kubectl edit limitrange -n shop some  # type sluice.dev/Pod, max: sluice.dev/metrics: "7"`}},
		"there is none": {[]inspect.Limit{pod(7, 9)}, []LimitRange{}, []string{
			`echo '{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"pushed-metrics","namespace":"shop"},"spec":{"limits":[{"max":{"sluice.dev/metrics":"7"},"type":"sluice.dev/Pod"}]}}' | kubectl apply -f -`}},
		"there is one": {[]inspect.Limit{pod(7, 9)}, []LimitRange{{"some", []LimitEntry{entry("Container", "", ""), entry("sluice.dev/Pod", "5", "")}}}, []string{
			`kubectl patch limitrange -n shop some --type=json -p '[{"op":"replace","path":"/spec/limits/1/max/sluice.dev~1metrics","value":"7"}]'`}},
		"the lowest of several holds": {[]inspect.Limit{pod(7, 9)}, []LimitRange{
			{"a", []LimitEntry{entry("sluice.dev/Pod", "5", "1")}}, {"b", []LimitEntry{entry("sluice.dev/Pod", "6", "")}}, {"c", []LimitEntry{entry("sluice.dev/Pod", "7", "")}}}, []string{
			`kubectl patch limitrange -n shop a --type=json -p '[{"op":"replace","path":"/spec/limits/0/max/sluice.dev~1metrics","value":"7"}]'`,
			`kubectl patch limitrange -n shop b --type=json -p '[{"op":"replace","path":"/spec/limits/0/max/sluice.dev~1metrics","value":"7"}]'`}},
		"one of two numbers is set": {[]inspect.Limit{pod(7, 1234), pod(9, 0)}, []LimitRange{{"some", []LimitEntry{entry("sluice.dev/Pod", "5", "")}}}, []string{
			`kubectl patch limitrange -n shop some --type=json -p '[{"op":"replace","path":"/spec/limits/0/max/sluice.dev~1metrics","value":"9"},` +
				`{"op":"add","path":"/spec/limits/-","value":{"max":{"sluice.dev/series":"1400"},"type":"sluice.dev/Pod"}}]'`}},
		"one of the name has other types": {[]inspect.Limit{pod(7, 9)}, []LimitRange{{"pushed-metrics", []LimitEntry{entry("sluice.dev/Namespace", "5", "")}}}, []string{
			`kubectl patch limitrange -n shop pushed-metrics --type=json -p '[{"op":"add","path":"/spec/limits/-","value":{"max":{"sluice.dev/metrics":"7"},"type":"sluice.dev/Pod"}}]'`}},
	} {
		f := &Facts{Autoscaler: inspect.Autoscaler{Namespace: "shop", Name: "web"}, Limits: c.limits, LimitRanges: c.ranges}
		got := f.toRaise(m)
		if want := c.want; len(c.limits) > 0 && c.ranges != nil {
			c.want = append(want, "sluice list limits -n shop")
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	for n, want := range map[int]int{1: 1, 99: 99, 100: 100, 101: 110, 1357: 1400, 9950: 10000} {
		if got := roundUp(n); got != want {
			t.Errorf("%d rounded up: %d, want %d", n, got, want)
		}
	}
}
