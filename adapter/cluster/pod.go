package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"unique"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podResource is the canonical resource of pods.
const podResource = "pods"

// AboutAnnotation with the value AboutExternal says that samples of a pod without a claim do not
// describe the pod.
const (
	AboutAnnotation = "sluice.dev/about"
	AboutExternal   = "external"
)

// pod is the part of a pod that is kept. It is immutable once indexed: an update indexes another
// pod, with the same *metric.Pod if that is equal.
type pod struct {
	*metric.Pod
	finished bool
	// ready: the pod passes its readiness checks and is not being deleted.
	ready bool
	// pending: no container has started. deleting: the pod ends. The controller of autoscalers counts
	// neither as a pod with a value.
	pending, deleting bool
	// controllerPosition is the pod's position in the controller index. The lock of pods guards it.
	controllerPosition uint32
	// controller owns the pod, usually a ReplicaSet; the zero Handle: none.
	controller unique.Handle[metric.Workload]
	labels     labelSet
	// labelPositions are the pod's positions in the label index. The lock of pods guards them.
	labelPositions []uint32
	containers     []container
	// started is for Sender.Started and usage.Pod. It changes with each restart, so it makes no pod another one.
	started int64
	// addresses are the pod's own; empty in the host network.
	addresses []netip.Addr
	hosts     unique.Handle[hostAddresses]
	node      unique.Handle[string] // name of the pod's node; empty: it has none yet
	// announcement is nil for most pods, and for all unless they are asked for.
	announcement *metric.Announcement
	// shared keeps the interned names of namespace and service account alive as long as the pod.
	shared [2]unique.Handle[string]
}

// hostAddresses are the addresses of the pod's node, padded with the zero Addr. Any process of the
// node may send from them, so they belong to nobody.
type hostAddresses [4]netip.Addr

// container is a container of a pod.
type container struct {
	id   containerID
	name unique.Handle[string]
}

// containerID is a container's ID: the 32 bytes of 64 hexadecimal digits, or the hash of any other
// ID.
type containerID [sha256.Size]byte

func newContainerID(id string) containerID {
	if _, bare, ok := strings.Cut(id, "://"); ok { // "containerd://3f…" in the API
		id = bare
	}
	var raw containerID
	if len(id) == 2*len(raw) {
		if _, err := hex.Decode(raw[:], []byte(id)); err == nil {
			return raw
		}
	}
	return sha256.Sum256([]byte(id))
}

// newPod copies the kept part of a pod.
func newPod(from *corev1.Pod) *pod {
	namespace, account := unique.Make(from.Namespace), unique.Make(from.Spec.ServiceAccountName)
	return &pod{
		Pod: &metric.Pod{
			Namespace:       namespace.Value(),
			Name:            from.Name,
			UID:             string(from.UID),
			ServiceAccount:  account.Value(),
			Created:         createdAt(from),
			DefaultExternal: from.Annotations[AboutAnnotation] == AboutExternal,
		},
		// A pod that is being deleted still lives. It sends and counts until it is removed or has
		// finished.
		finished:   from.Status.Phase == corev1.PodSucceeded || from.Status.Phase == corev1.PodFailed,
		ready:      isReady(from),
		pending:    from.Status.Phase == corev1.PodPending,
		deleting:   from.DeletionTimestamp != nil,
		controller: controllerOf(from),
		labels:     newLabelSet(from.Labels),
		containers: containersOf(&from.Status),
		started:    startedAt(&from.Status),
		addresses:  ownAddresses(from),
		hosts:      unique.Make(hostsOf(from)),
		node:       unique.Make(from.Spec.NodeName),
		shared:     [2]unique.Handle[string]{namespace, account},
	}
}

func createdAt(from *corev1.Pod) int64 {
	if from.CreationTimestamp.IsZero() {
		return 0
	}
	return from.CreationTimestamp.Unix()
}

func containersOf(status *corev1.PodStatus) []container {
	all := make([]container, 0, len(status.ContainerStatuses)+len(status.InitContainerStatuses)+
		len(status.EphemeralContainerStatuses))
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses,
		status.EphemeralContainerStatuses} {
		for i := range list {
			if id := list[i].ContainerID; id != "" {
				all = append(all, container{newContainerID(id), unique.Make(list[i].Name)})
			}
		}
	}
	return slices.Clip(all)
}

// startedAt returns the Unix second in which the first container started. If none has, as during the pull of an
// image, it is that in which the pod's sandbox was ready; 0: nothing is known.
func startedAt(status *corev1.PodStatus) (first int64) {
	note := func(at metav1.Time) {
		if second := at.Unix(); !at.IsZero() && (first == 0 || second < first) {
			first = second
		}
	}
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses,
		status.EphemeralContainerStatuses} {
		for i := range list {
			for _, state := range []*corev1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Running != nil {
					note(state.Running.StartedAt)
				}
				if state.Terminated != nil {
					note(state.Terminated.StartedAt)
				}
			}
		}
	}
	if first != 0 {
		return first
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type == corev1.PodReadyToStartContainers && condition.Status == corev1.ConditionTrue {
			note(condition.LastTransitionTime)
		}
	}
	return first
}

func ownAddresses(from *corev1.Pod) []netip.Addr {
	if from.Spec.HostNetwork {
		return nil
	}
	return podAddresses(&from.Status)
}

func podAddresses(status *corev1.PodStatus) []netip.Addr {
	all := make([]netip.Addr, 0, max(len(status.PodIPs), 1))
	all = addAddress(all, status.PodIP)
	for _, podIP := range status.PodIPs {
		all = addAddress(all, podIP.IP)
	}
	return all
}

func hostsOf(from *corev1.Pod) hostAddresses {
	all := addAddress(nil, from.Status.HostIP)
	for _, hostIP := range from.Status.HostIPs {
		all = addAddress(all, hostIP.IP)
	}
	if from.Spec.HostNetwork {
		for _, podAddress := range podAddresses(&from.Status) {
			all = addOnce(all, podAddress)
		}
	}
	var hosts hostAddresses
	slices.SortFunc(all, netip.Addr.Compare)
	copy(hosts[:], all)
	return hosts
}

// addAddress appends a parsed address in the form that a receiver sees: IPv4 is never in IPv6 form.
func addAddress(all []netip.Addr, text string) []netip.Addr {
	if address, err := netip.ParseAddr(text); err == nil {
		all = addOnce(all, address.Unmap())
	}
	return all
}

func addOnce(all []netip.Addr, address netip.Addr) []netip.Addr {
	if slices.Contains(all, address) {
		return all
	}
	return append(all, address)
}

// equal reports whether the kept parts are the same.
func (p *pod) equal(q *pod) bool {
	return p.finished == q.finished && p.ready == q.ready && p.pending == q.pending && p.deleting == q.deleting &&
		p.controller == q.controller &&
		p.hosts == q.hosts && p.node == q.node && *p.Pod == *q.Pod &&
		p.labels == q.labels && slices.Equal(p.containers, q.containers) &&
		slices.Equal(p.addresses, q.addresses) && p.announcement.Equal(q.announcement)
}

// allAddresses returns the pod's addresses and its node's. A nil pod has none.
func (p *pod) allAddresses() []netip.Addr {
	if p == nil {
		return nil
	}
	all := slices.Clone(p.addresses)
	for _, host := range p.hosts.Value() {
		if host.IsValid() {
			all = addOnce(all, host)
		}
	}
	return all
}
