package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// A pod that was refused or says nothing is a fault where its value may change what the controller
// decides, and a note elsewhere.
func TestHeldBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		says   string // empty: nothing holds the autoscaler back
	}{
		"all have a value": {func(*Facts) {}, ""},
		"up, and the others would have it go further": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 200), value("web-2", 200)}
		}, "the controller assumes 0 for them, so it wants 4 replicas; if they had the mean of the others, it would want 6"},
		"down, and the controller counts the target": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 10), value("web-2", 10)}
		}, "the controller assumes the target for them, so it wants 2 replicas; if they had the mean of the others, it would want 1"},
		"its own value may differ": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 100), value("web-2", 100)}
		}, "the controller assumes no value for them, so it wants 3 replicas; with their values it may want 2 to 6"},
		"a pod that has just started": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 200), value("web-2", 200)}
			f.Pods[2].Started = noon.Add(-30 * time.Second)
		}, ""},
		"a pod that has just started and was refused": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 200), value("web-2", 200)}
			f.Pods[2].Started = noon.Add(-30 * time.Second)
			f.Rejections = []inspect.Rejection{{Namespace: "shop", Sender: "web-3", Metric: "http_requests", Reason: "limit", Last: noon, Message: "over"}}
		}, "1 of 3 pods without a value (web-3 pushed, but was rejected (limit): over)"},
		"a pod that was refused an hour ago": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 200), value("web-2", 200)}
			f.Rejections = []inspect.Rejection{{Namespace: "shop", Sender: "web-3", Metric: "http_requests", Reason: "malformed", Last: noon.Add(-time.Hour), Message: "no value"}}
		}, "1 of 3 pods without a value (web-3 has not pushed it, or its value has expired; 1h ago it pushed, but was rejected (malformed): no value)"},
		"a pod that isn't ready": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 200), value("web-2", 200)}
			f.Pods[2].Ready = false
		}, ""},
		"a pod that is deleted": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 200), value("web-2", 200)}
			f.Pods[2].Deleting = true
		}, ""},
		"another metric wants the maximum": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 200), value("web-2", 200)}
			f.Autoscaler.Metrics = append(f.Autoscaler.Metrics, inspect.AutoscalerMetric{Source: "External", Name: "queue", TargetType: "AverageValue", Target: "1"})
			f.Readings = append(f.Readings, Reading{Asked: true, Values: []Value{value("", 1000)}})
		}, ""},
		"there is one number of replicas": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", 200), value("web-2", 200)}
			f.Autoscaler.MinReplicas, f.Autoscaler.MaxReplicas = 3, 3
		}, ""},
		"a negative mean": {func(f *Facts) {
			f.Readings[0].Values = []Value{value("web-1", -200), value("web-2", -200)}
		}, "it may want 1 to 6"},
		"a pod with a value that is refused further series": {func(f *Facts) { seriesRefused(f, "web-2") },
			"the value of 1 of 3 pods is incomplete (web-2 pushed more, but a new series of \"http_requests\" is rejected: the limit of pod web-2 is 100 series, and 100 are in use: " +
				"http_requests 100 (named by an autoscaler)); the controller wants 5 replicas, and with all series it may want up to 6"},
		"its series were refused, and another sample for another reason since": {func(f *Facts) {
			seriesRefused(f, "web-2")
			f.Rejections = append(f.Rejections, inspect.Rejection{Namespace: "shop", Sender: "web-2", Metric: "http_requests", Reason: "malformed", Last: noon})
		}, "the value of 1 of 3 pods is incomplete"},
		"it was refused series before the limit was raised": {func(f *Facts) {
			seriesRefused(f, "web-2")
			f.Limits[0].WantedMetrics, f.Limits[0].WantedSeries = 0, 0
		}, ""},
		"it was refused series long ago": {func(f *Facts) {
			seriesRefused(f, "web-2")
			f.Rejections[0].Last = noon.Add(-lately)
		}, ""},
		"it is refused for another reason": {func(f *Facts) {
			seriesRefused(f, "web-2")
			f.Rejections[0].Reason = "malformed"
		}, ""},
		"a pod lacks series, and another has no value": {func(f *Facts) {
			seriesRefused(f, "web-2")
			f.Readings[0].Values = f.Readings[0].Values[:2]
		}, "so it wants 3 replicas; if they had the mean of the others, it would want 5; the value of 1 of 3 pods is incomplete"},
		"nobody has a value": {func(f *Facts) {
			f.Readings[0] = Reading{Asked: true, Code: 404, Fault: "no series"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := shop()
			c.change(f)
			got := HeldBack(f)[0]
			if c.says == "" && got.Why != "" || !strings.Contains(got.Why, c.says) {
				t.Errorf("%+v, want %q", got, c.says)
			}
			r := Autoscaler(f)
			if broken := c.says != "" || f.Readings[0].Fault != ""; r.Broken() != broken {
				t.Errorf("broken is %v, want %v: %+v", r.Broken(), broken, r.Findings)
			}
		})
	}
}

// A thousand pods without a value are named in part, rejected ones first.
func TestManyPodsWithoutAValue(t *testing.T) {
	f := shop()
	f.Pods = nil
	for i := range 1000 {
		f.Pods = append(f.Pods, running("web-"+number(int64(i)*1000)))
	}
	f.Readings[0].Values = []Value{value("web-0", 200)}
	f.Rejections = []inspect.Rejection{{Namespace: "shop", Sender: "web-998", Metric: "http_requests", Reason: "limit", Last: noon, Message: "over"}}
	got := HeldBack(f)[0]
	if len(got.Without) != inspect.MaxWithout || got.Without[0].Name != "web-998" || !got.Without[0].Refused || got.Without[1].Refused {
		t.Errorf("%+v", got.Without)
	}
	if len(got.Why) > 600 || !strings.Contains(got.Why, "999 of 1000 pods") || !strings.Contains(got.Why, "and 996 more") {
		t.Errorf("%d bytes: %s", len(got.Why), got.Why)
	}
}
