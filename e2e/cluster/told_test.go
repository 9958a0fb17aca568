package cluster

import (
	"testing"

	core "k8s.io/api/core/v1"
)

// A finished pod keeps its object for long; its values are gone with its end.
func forgetsAFinishedPod(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "finished")
	done, runs := c.pod(t, ns, "done", "default"), c.pod(t, ns, "runs", "default")
	c.sendFrom(t, addressOf(t, done), "hits:7|c")
	c.sendFrom(t, addressOf(t, runs), "hits:3|c")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{"done": 7, "runs": 3})
	must(t, c.Kubelet.Finish(t.Context(), ns, "done", core.PodSucceeded))
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{"runs": 3})
}

// An invalid limit is reported on its LimitRange, and so is a type that makes Kubernetes refuse
// pods.
func reportsBadLimitRanges(t *testing.T, c *cluster) {
	ns, wrong := c.Namespace(t, "badlimits"), c.Namespace(t, "wrongtype")
	c.Apply(t, ns, `
apiVersion: v1
kind: LimitRange
metadata: {name: absurd}
spec:
  limits:
  - {type: sluice.dev/Pod, max: {sluice.dev/metrics: "-1", sluice.dev/series: "500m"}}
`)
	c.wantEvent(t, ns, "absurd", "sluice.dev/metrics", "-1")
	c.Apply(t, wrong, `
apiVersion: v1
kind: LimitRange
metadata: {name: misplaced}
spec:
  limits:
  - {type: Pod, max: {sluice.dev/metrics: "7"}}
`)
	c.wantEvent(t, wrong, "misplaced", "sluice.dev/Pod", "type")
	// The bad values count for nothing: the limit is the default.
	one := c.pod(t, ns, "one", "default")
	c.sendFrom(t, addressOf(t, one), "m0:1|g\nm1:1|g\nm2:1|g\nm3:1|g\nm4:1|g\nm5:1|g")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/m4", map[string]float64{"one": 1})
	if got, err := c.values(t, "/namespaces/"+ns+"/pods/*/m5"); err == nil {
		t.Errorf("a sixth metric came in: %v", got)
	}
}
