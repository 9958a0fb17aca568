package main

import (
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/identity"
)

// writtenEvents records the Events that would be written.
type writtenEvents []string

func (w *writtenEvents) Event(o metric.Object, reason, name, _ string) {
	*w = append(*w, o.Name+" "+reason+" "+name)
}

// The Events about a pod's rejected samples are bounded by the number of pods. A deleted pod makes room
// for another one.
func TestDeletedPodsMakeRoomForEvents(t *testing.T) {
	t.Parallel()
	p := awayFromAPIServer(t)
	var events writtenEvents
	p.cluster.rejections = identity.NewRejections(p.resolver, &events)
	pod := &metric.Pod{Namespace: "shop", Name: "web-1", UID: "1"}
	push := func() {
		s := &metric.Sample{Name: []byte("hits"), Kind: metric.Counter, Sender: &metric.Sender{Key: 1, Pod: pod, Known: true},
			Object: &metric.Object{Resource: "pods", Namespace: "shop", Name: "web-2"}}
		var d metric.Description
		if reason := p.cluster.rejections.Describe(s, &d); reason != metric.Identity {
			t.Fatalf("a metric of another pod: %s", reason)
		}
	}
	push()
	push()
	if len(events) != 1 {
		t.Fatalf("Events %q, want one", events)
	}
	p.cluster.observer().ObjectGone(pod.Object())
	if push(); len(events) != 2 {
		t.Errorf("Events %q after the pod was deleted, want another one", events)
	}
}
