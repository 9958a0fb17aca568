package controlplane

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Scaled calls a function for each Deployment, by its name, at a moment of chance within a span. It returns the times
// from each call until a watch shows its Deployment at so many replicas, or more.
func (c *ControlPlane) Scaled(t *testing.T, namespace string, replicas int32, span time.Duration,
	push map[string]func()) (took []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), span+5*time.Minute)
	defer cancel()
	watch, err := c.Kubernetes.AppsV1().Deployments(namespace).Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer watch.Stop()
	began := map[string]time.Time{}
	for name, push := range push {
		after := rand.N(span)
		began[name] = time.Now().Add(after)
		time.AfterFunc(after, push)
	}
	for event := range watch.ResultChan() {
		d, is := event.Object.(*apps.Deployment)
		if !is || *d.Spec.Replicas < replicas {
			continue
		}
		if at, waits := began[d.Name]; waits {
			took = append(took, time.Since(at))
			if delete(began, d.Name); len(began) == 0 {
				return took
			}
		}
	}
	t.Fatalf("%d of %d Deployments do not have %d replicas", len(began), len(push), replicas)
	return nil
}
