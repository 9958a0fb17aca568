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
)

// podResource is the canonical resource of pods.
const podResource = "pods"

// Annotation on a pod, and its value, that say that what the pod sends without a claim is not about itself.
const (
	AboutAnnotation = "sluice.dev/about"
	AboutExternal   = "external"
)

// pod is what is kept of a pod. It is never changed once it is filed: an update files another one, with the same
// *metric.Pod where that would be equal.
type pod struct {
	*metric.Pod
	finished bool
	// ready: it passes its readiness checks, and is not being deleted.
	ready bool
	// controller is what owns the pod, a ReplicaSet mostly; the zero Handle: nothing does.
	controller unique.Handle[metric.Workload]
	labels     labelSet
	// posted is where the pod stands in the posting of each of its labels. The lock of pods guards it.
	labelPositions []uint32
	containers     []containerID
	// addresses are the pod's own; none in the host's network.
	addresses []netip.Addr
	hosts     unique.Handle[hostAddresses]
	// shared keeps alive, as long as the pod, the one copy of the namespace's and service account's names.
	shared [2]unique.Handle[string]
}

// hostAddresses are those of the node that a pod runs on, the zero Addr where there are fewer. What comes from there
// may come from any process of the node, so it is nobody's.
type hostAddresses [4]netip.Addr

// containerID is a container's ID in the 32 bytes that 64 hexadecimal digits stand for; another one's hash.
type containerID [sha256.Size]byte

func newContainerID(id string) containerID {
	if _, bare, ok := strings.Cut(id, "://"); ok { // "containerd://3f…", as the API says it
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

// newPod takes from a pod of the API what is kept.
func newPod(from *corev1.Pod) *pod {
	namespace, account := unique.Make(from.Namespace), unique.Make(from.Spec.ServiceAccountName)
	return &pod{
		Pod: &metric.Pod{
			Namespace:      namespace.Value(),
			Name:           from.Name,
			UID:            string(from.UID),
			ServiceAccount: account.Value(),
			Created:        createdAt(from),
			AboutExternal:  from.Annotations[AboutAnnotation] == AboutExternal,
		},
		// A pod that is being deleted still lives: it sends and counts until the API has it no more, or says that it
		// finished.
		finished:   from.Status.Phase == corev1.PodSucceeded || from.Status.Phase == corev1.PodFailed,
		ready:      isReady(from),
		controller: controllerOf(from),
		labels:     newLabelSet(from.Labels),
		containers: containersOf(&from.Status),
		addresses:  ownAddresses(from),
		hosts:      unique.Make(hostsOf(from)),
		shared:     [2]unique.Handle[string]{namespace, account},
	}
}

func createdAt(from *corev1.Pod) int64 {
	if from.CreationTimestamp.IsZero() {
		return 0
	}
	return from.CreationTimestamp.Unix()
}

func containersOf(status *corev1.PodStatus) []containerID {
	all := make([]containerID, 0, len(status.ContainerStatuses)+len(status.InitContainerStatuses)+len(status.EphemeralContainerStatuses))
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			if id := list[i].ContainerID; id != "" {
				all = append(all, newContainerID(id))
			}
		}
	}
	return slices.Clip(all)
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
	for _, one := range status.PodIPs {
		all = addAddress(all, one.IP)
	}
	return all
}

func hostsOf(from *corev1.Pod) hostAddresses {
	all := addAddress(nil, from.Status.HostIP)
	for _, one := range from.Status.HostIPs {
		all = addAddress(all, one.IP)
	}
	if from.Spec.HostNetwork {
		for _, one := range podAddresses(&from.Status) {
			all = addOnce(all, one)
		}
	}
	var hosts hostAddresses
	slices.SortFunc(all, netip.Addr.Compare)
	copy(hosts[:], all)
	return hosts
}

// addAddress adds the address that text says, as a receiver would see it: an IPv4 address is never in IPv6 form.
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

// equal reports whether nothing changed that anybody asks for.
func (p *pod) equal(q *pod) bool {
	return p.finished == q.finished && p.ready == q.ready && p.controller == q.controller && p.hosts == q.hosts && *p.Pod == *q.Pod &&
		slices.Equal(p.labels, q.labels) && slices.Equal(p.containers, q.containers) && slices.Equal(p.addresses, q.addresses)
}

// places are all addresses that the pod says something about. A nil pod says nothing.
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
