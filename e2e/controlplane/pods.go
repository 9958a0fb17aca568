package controlplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitPods waits until a selector matches exactly count pods, all ready. It returns the pods,
// sorted by name.
func (c *ControlPlane) AwaitPods(t *testing.T, namespace, selector string, count int) []core.Pod {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		list, err := c.Kubernetes.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		must(t, err)
		if pods := list.Items; len(pods) == count && !slices.ContainsFunc(pods, func(p core.Pod) bool { return !ready(p) }) {
			slices.SortFunc(pods, func(a, b core.Pod) int { return cmp.Compare(a.Name, b.Name) })
			return pods
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s: want %d ready pods of %q in %s", patience, describe(list.Items), count, selector, namespace)
		}
	}
}

func ready(pod core.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool {
		return c.Type == core.PodReady && c.Status == core.ConditionTrue
	})
}

func describe(pods []core.Pod) string {
	if len(pods) == 0 {
		return "no pods"
	}
	words := make([]string, len(pods))
	for i, pod := range pods {
		words[i] = fmt.Sprintf("%s %s ready=%v", pod.Name, pod.Status.Phase, ready(pod))
	}
	return strings.Join(words, ", ")
}
