package main

import (
	"net/http"
	"path/filepath"
	"strings"
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

// A kind that may not be listed at the start, as before its role is applied, holds up nobody, and which of its objects
// exist is not known. Their restored series are not answered meanwhile, and are there once it is listed, except for
// those of objects that are gone.
func TestSeriesOfAKindThatIsForbiddenAtFirst(t *testing.T) {
	t.Parallel()
	const list, path = "/apis/apps/v1/deployments", "/v1/namespaces/shop/deployments.apps/"
	withDeployments := func(names ...string) *fakeCluster {
		c := newFakeCluster()
		for _, name := range names {
			c.items[list] = append(c.items[list], map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": map[string]any{"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1"}})
		}
		return c
	}
	data := filepath.Join(t.TempDir(), "data")
	t.Run("before", func(t *testing.T) {
		p := startedWithData(t, withDeployments("web", "gone"), data)
		accepted(t, p, http.MethodPut, path+"web/held", "7")
		accepted(t, p, http.MethodPut, path+"gone/held", "8")
	})
	t.Run("after", func(t *testing.T) {
		c := withDeployments("web")
		c.forbid(list, true)
		p := startedWithData(t, c, data)
		if n := p.table.Series(); n != 2 {
			t.Fatalf("%d series while deployments may not be listed, want 2", n)
		}
		c.forbid(list, false)
		var status int
		var body string
		eventually(t, func() bool {
			status, body = spoken(t, p, http.MethodGet, path+"web/held", "")
			return status == http.StatusOK
		}, func() string { return body })
		if !strings.Contains(body, "7") {
			t.Errorf("web has %s, want 7", body)
		}
		p.prune()
		if n := p.table.Series(); n != 1 {
			t.Errorf("%d series once deployments are listed, want 1", n)
		}
	})
}

// Changes of autoscalers let rejected series ask again once a second, as all other causes do, and not at each change.
func TestChangedAutoscalersReadmit(t *testing.T) {
	t.Parallel()
	p := awayFromAPIServer(t)
	p.cluster.readmit.Store(false)
	p.cluster.limits.AutoscalersChanged("shop")
	eventually(t, p.cluster.readmit.Load, func() string { return "a changed autoscaler readmits nothing" })
	p.cluster.readmit.Store(false)
	p.cluster.limits.LimitsChanged("shop")
	eventually(t, p.cluster.readmit.Load, func() string { return "a changed limit readmits nothing" })
}
