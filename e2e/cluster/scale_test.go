package cluster

import (
	"testing"
	"time"
)

// The Deployment of the documentation's example goes from one pod to as many as the formula says,
// ceil(35/10), and back when the traffic stops: an idle counter is an explicit 0, so the autoscaler
// does not freeze.
func scalesOnPods(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "pods")
	c.Apply(t, ns, example(t, "hpa-pods.yaml", ns))
	c.AwaitPods(t, ns, "app=web", 1)
	traffic := c.startLoad(t, ns, "app=web", 35, requests)
	c.wantReplicas(t, ns, "web", 4)
	c.steady(t, ns, "web", 4, 15*time.Second)
	c.noWarnings(t, ns, "web")
	traffic.perSecond.Store(0)
	c.wantReplicas(t, ns, "web", 1)
}
