package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A static pod's object is made after its containers, and the clock of a node may be behind that of the API server: so
// usage is the pod's from its first container's start, by the same clock. That of a former pod of its name began earlier.
func TestUsageOfPodsThatStartedBeforeTheirCreation(t *testing.T) {
	created := time.Unix(1_790_000_000, 0)
	for name, c := range map[string]struct {
		status, start time.Duration // of the container, after the creation: what the pod's status says, and the kubelet
		served        bool
	}{
		"after the creation":              {3 * time.Second, 3500 * time.Millisecond, true},
		"before the creation":             {-3 * time.Second, -2500 * time.Millisecond, true},
		"long before the creation":        {-time.Hour, 500*time.Millisecond - time.Hour, true},
		"the status is not known yet":     {0, -time.Second, false},
		"of the former pod":               {3 * time.Second, -time.Second, false},
		"of the former pod of a slow one": {-3 * time.Second, -4 * time.Second, false},
	} {
		from, v := aPod("shop", "web-0", "uid"), &View{pods: newPods(&Observer{})}
		from.Spec.NodeName, from.CreationTimestamp = "a", metav1.NewTime(created)
		if c.status != 0 {
			from.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(created.Add(c.status))}}}}
		}
		v.pods.put(newPod(from))
		pods := v.UsedPods("shop", "web-0", labels.Everything())
		if len(pods) != 1 || !pods[0].Created.Equal(created) {
			t.Fatalf("%s: %+v", name, pods)
		}
		latest, now, start := usage.NewLatest(), created.Add(time.Minute), created.Add(c.start)
		record := usage.Record{Container: metric.Container{Namespace: "shop", Pod: "web-0", Name: "web"}, Started: start, Since: start}
		latest.Set("a", usage.Report{At: now, Records: []usage.Record{record}}, now)
		if _, _, _, ok := latest.Served(&pods[0], now); ok != c.served || pods[0].Renewed(&record) == c.served {
			t.Errorf("%s: served %t, renewed %t; want served %t", name, ok, pods[0].Renewed(&record), c.served)
		}
	}
}

// watchedSelector counts what it is asked, and sees whether pods can change meanwhile.
type watchedSelector struct {
	labels.Selector
	pods          *pods
	asked, locked int
}

func (s *watchedSelector) Matches(l labels.Labels) bool {
	if s.asked++; s.pods.mu.TryLock() {
		s.pods.mu.Unlock()
	} else {
		s.locked++
	}
	return s.Selector.Matches(l)
}

// Who lists the usage of pods holds up no changes of pods: they are selected without the lock, of those with a label that
// the selector names.
func TestUsedPodsAreSelectedWithoutTheLock(t *testing.T) {
	v := &View{pods: newPods(&Observer{})}
	for i, app := range []string{"web", "web", "db", ""} {
		for _, namespace := range []string{"shop", "bank"} {
			from := aPod(namespace, fmt.Sprint("pod-", i), fmt.Sprint(namespace, i))
			from.Labels = map[string]string{"tier": "one"}
			if app != "" {
				from.Labels["app"] = app
			}
			v.pods.put(newPod(from))
		}
	}
	for _, c := range []struct {
		namespace, name, selector string
		found, asked              int
	}{
		{"shop", "", "app=web", 2, 2}, {"shop", "", "app in (web,db)", 3, 3}, {"shop", "", "app=none", 0, 0},
		{"shop", "", "app!=web", 2, 4}, {"shop", "", "", 4, 4}, {"shop", "", "app=web,tier=two", 0, 0},
		{"", "", "app=web", 4, 8}, {"", "", "", 8, 8}, {"shop", "pod-2", "app=db", 1, 1}, {"shop", "pod-2", "app=web", 0, 1},
		{"inn", "", "", 0, 0}, {"shop", "pod-9", "", 0, 0},
	} {
		parsed, err := labels.Parse(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		selector := &watchedSelector{Selector: parsed, pods: v.pods}
		pods := v.UsedPods(c.namespace, c.name, selector)
		if len(pods) != c.found || selector.asked != c.asked || selector.locked != 0 {
			t.Errorf("%+v: %d pods, %d were looked at, %d with the lock", c, len(pods), selector.asked, selector.locked)
		}
		for i := range pods {
			if own := pods[i].LabelMap(); own["tier"] != "one" || !parsed.Matches(labels.Set(own)) {
				t.Errorf("%+v: labels %v", c, own)
			} else if text := newLabelSet(own).String(); pods[i].LabelBytes != len(text) {
				t.Errorf("%+v: labels %q are said to have %d bytes", c, text, pods[i].LabelBytes)
			}
		}
	}
}
