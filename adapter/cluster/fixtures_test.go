package cluster

import (
	"fmt"
	"log/slog"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var quiet = slog.New(slog.DiscardHandler)

// hex64 is a container ID of 64 hexadecimal digits.
func hex64(n int) string { return fmt.Sprintf("%064x", n) }

// aPod runs on the node 192.168.0.1.
func aPod(namespace, name, uid string, ips ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{ServiceAccountName: "runner"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "192.168.0.1"},
	}
	for i, ip := range ips {
		if i == 0 {
			p.Status.PodIP = ip
		}
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func finished(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase = corev1.PodSucceeded
	return p
}

func labelled(p *corev1.Pod, key, value string) *corev1.Pod {
	p.Labels = map[string]string{key: value}
	return p
}

func annotated(p *corev1.Pod, key, value string) *corev1.Pod {
	p.Annotations = map[string]string{key: value}
	return p
}

func onHostNetwork(p *corev1.Pod) *corev1.Pod {
	p.Spec.HostNetwork = true
	return p
}

func quantities(metrics, series string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if metrics != "" {
		list[metricsName] = quantity.MustParse(metrics)
	}
	if series != "" {
		list[seriesName] = quantity.MustParse(series)
	}
	return list
}

func podItem(metrics, series string) corev1.LimitRangeItem {
	return corev1.LimitRangeItem{Type: podType, Max: quantities(metrics, series)}
}

func namespaceItem(metrics, series string) corev1.LimitRangeItem {
	return corev1.LimitRangeItem{Type: namespaceType, Max: quantities(metrics, series)}
}

func aLimitRange(namespace, name string, items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)},
		Spec:       corev1.LimitRangeSpec{Limits: items},
	}
}

func anAutoscaler(namespace, name string, metrics ...autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: metrics},
	}
}

func podsMetric(name string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType,
		Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: name}}}
}

func externalMetric(name string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: name}}}
}

func objectMetric(kind, object, name string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType,
		Object: &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: kind, Name: object},
			Metric:          autoscalingv2.MetricIdentifier{Name: name},
		}}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
