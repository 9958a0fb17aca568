package controlplane

import (
	"context"
	"testing"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespace makes a namespace for the test, with a name that starts with the prefix. The end of the
// test deletes the namespace without waiting.
func (c *ControlPlane) Namespace(t *testing.T, prefix string) string {
	t.Helper()
	namespaces := c.Kubernetes.CoreV1().Namespaces()
	made, err := namespaces.Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = namespaces.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) // the test may have deleted it
	})
	return made.Name
}
