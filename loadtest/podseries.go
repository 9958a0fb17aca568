package loadtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// podCounters are counters of a fake API server's pods, such as
// "app.m3:1|c|#namespace:load-0,pod:web-12". Untagged, as a pod sends them, the line is
// "app.m3:1|c". All metrics of a pod precede those of the next pod.
type podCounters struct {
	uniform
	pods     podSet
	metrics  int
	untagged bool
}

func newPodCounters(pods podSet, metrics int) podCounters {
	return podCounters{uniform: uniform(pods.size() * metrics), pods: pods, metrics: metrics}
}

func podMetric(n int) string { return "app.m" + strconv.Itoa(n) }

func (p podCounters) appendLine(dst []byte, i int, _ *rand.Rand) []byte {
	pod, metric := i/p.metrics, i%p.metrics
	dst = append(append(dst, podMetric(metric)...), ":1|c"...)
	if p.untagged {
		return dst
	}
	return fmt.Appendf(dst, "|#namespace:%s,pod:%s", p.pods.namespace(pod), p.pods.name(pod))
}

func (p podCounters) parts() []part {
	var paths []string
	for namespace := range p.pods.namespaces {
		for metric := range p.metrics {
			paths = append(paths, fmt.Sprintf("/v1/namespaces/%s/pods/*/%s:total", podNamespace(namespace), podMetric(metric)))
		}
	}
	return []part{{name: "counters", paths: paths, size: p.size()}}
}
