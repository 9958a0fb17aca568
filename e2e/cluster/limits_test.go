package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod may have five metrics. The sixth is refused and an Event says so; the documentation's
// LimitRange lets it in, and rejects no pod.
func refusesTheSixthMetric(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "limits")
	one := c.pod(t, ns, "one", "default")
	address := addressOf(t, one)
	for i := range 5 {
		c.sendFrom(t, address, fmt.Sprintf("m%d:1|g", i))
	}
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/m4", map[string]float64{"one": 1})
	c.sendFrom(t, address, "sixth:6|g")
	c.wantEvent(t, ns, "one", `"sixth"`, "m0", "m1", "m2", "m3", "m4")
	if got, err := c.values(t, "/namespaces/"+ns+"/pods/*/sixth"); err == nil {
		t.Errorf("the sixth metric is there: %v", got)
	}
	said := c.push(t, address, "PUT", "/v1/namespaces/"+ns+"/pods/one/seventh", "7", 429)
	for _, part := range []string{"seventh", "m0", "m1", "m2", "m3", "m4", "LimitRange"} {
		if !strings.Contains(said, part) {
			t.Errorf("the refusal does not say %q: %s", part, said)
		}
	}

	c.Apply(t, ns, example(t, "limits.yaml", ns))
	within(t, func() error {
		c.sendFrom(t, address, "sixth:6|g")
		got, err := c.values(t, "/namespaces/"+ns+"/pods/*/sixth")
		if err == nil && got["one"] != 6 {
			err = fmt.Errorf("%v", got)
		}
		return err
	})
	c.pod(t, ns, "another", "default") // its manifest says nothing of sluice.dev/metrics
}

// wantEvent waits for an Event on a pod whose message holds all parts.
func (c *cluster) wantEvent(t *testing.T, namespace, pod string, parts ...string) {
	t.Helper()
	within(t, func() error {
		list, err := c.Kubernetes.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		err = errors.New("no Event on " + pod)
		for _, event := range list.Items {
			missing := ""
			for _, part := range parts {
				if !strings.Contains(event.Message, part) {
					missing = part
				}
			}
			if missing == "" {
				return nil
			}
			err = fmt.Errorf("the Event on %s says %q, want %s in it", pod, event.Message, missing)
		}
		return err
	})
}

// A metric that an autoscaler names gets its slot although five others came first.
func admitsWhatAnAutoscalerNames(t *testing.T, c *cluster) {
	ns := c.Namespace(t, "asked")
	c.Apply(t, ns, example(t, "hpa-pods.yaml", ns))
	pod := c.AwaitPods(t, ns, "app=web", 1)[0]
	address := addressOf(t, pod)
	c.awaitSender(t, ns, pod.Name)
	for i := range 5 { // one after the other: datagrams of different sockets may overtake each other
		c.sendFrom(t, address, fmt.Sprintf("m%d:1|g", i))
		c.wantValues(t, fmt.Sprintf("/namespaces/%s/pods/*/m%d", ns, i), map[string]float64{pod.Name: 1})
	}
	c.sendFrom(t, address, "http_requests:5|c")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/http_requests:total", map[string]float64{pod.Name: 5})
	within(t, func() error {
		if got, err := c.values(t, "/namespaces/"+ns+"/pods/*/m4"); err == nil {
			return fmt.Errorf("m4 is still there: %v", got)
		}
		return nil
	})
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/m3", map[string]float64{pod.Name: 1})
}
