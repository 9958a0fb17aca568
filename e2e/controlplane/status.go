package controlplane

import (
	"crypto/sha256"
	"fmt"
	"net/netip"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runningStatus is the status of a pod whose containers have just started and are ready.
func runningStatus(pod *core.Pod, address netip.Addr) core.PodStatus {
	now := metav1.Now()
	status := core.PodStatus{
		Phase:     core.PodRunning,
		HostIP:    nodeAddress.String(),
		HostIPs:   []core.HostIP{{IP: nodeAddress.String()}},
		PodIP:     address.String(),
		PodIPs:    []core.PodIP{{IP: address.String()}},
		StartTime: &now,
	}
	for _, kind := range []core.PodConditionType{core.PodScheduled, core.PodInitialized, core.ContainersReady, core.PodReady} {
		status.Conditions = append(status.Conditions, core.PodCondition{Type: kind, Status: core.ConditionTrue, LastTransitionTime: now})
	}
	started := true
	// What a held pod sends before its address is told is its own.
	first := pod.CreationTimestamp
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, core.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image,
			ContainerID: "containerd://" + containerID(pod, container.Name),
			Ready:       true, Started: &started,
			State: core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: first}},
		})
	}
	return status
}

// containerID returns 64 hexadecimal digits, constant for a container of a pod.
func containerID(pod *core.Pod, container string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(string(pod.UID)+"/"+container)))
}
