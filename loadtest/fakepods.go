package loadtest

import (
	"fmt"
	"net/netip"
	"strconv"
)

// podSet is the numbered pods of the fake API server, equally many in each namespace. A pod's JSON
// is made on request.
type podSet struct {
	namespaces, each int
	// selected is the number of pods in each namespace with the labels that selectedPods matches:
	// the first ones.
	selected int
}

// selectedPods is the label selector of the selected pods.
const selectedPods = "app=web"

func (p podSet) size() int { return p.namespaces * p.each }

func (p podSet) namespace(pod int) string { return podNamespace(pod / p.each) }

func podNamespace(n int) string { return "load-" + strconv.Itoa(n) }

func (p podSet) name(pod int) string { return "web-" + strconv.Itoa(pod%p.each) }

// address returns the pod's IP address. All of 127.0.0.0/8 is this machine, so lines can be sent
// from a pod's address without any setup. Nothing else uses addresses from 127.1.0.1 on.
func (p podSet) address(pod int) netip.Addr {
	n := uint32(pod) + 1
	return netip.AddrFrom4([4]byte{127, byte(1 + n>>16), byte(n >> 8), byte(n)})
}

// appendPod appends a pod as JSON, with the fields that a watcher of pods reads.
func (p podSet) appendPod(dst []byte, pod int) []byte {
	app := "web"
	if pod%p.each >= p.selected {
		app = "other"
	}
	address, node := p.address(pod), pod%5000
	return fmt.Appendf(dst, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"00000000-0000-4000-8000-%012x",`+
		`"resourceVersion":"1","creationTimestamp":"2025-01-01T00:00:00Z","labels":{"app":%q,"pod-template-hash":"6b7c8d9e0f"}},`+
		`"spec":{"serviceAccountName":"default","nodeName":"node-%d","containers":[{"name":"app","image":"app"}]},`+
		`"status":{"phase":"Running","hostIP":"192.168.%d.%d","podIP":%q,"podIPs":[{"ip":%q}],`+
		`"containerStatuses":[{"name":"app","image":"app","imageID":"","ready":true,"restartCount":0,"containerID":"containerd://%064x"}]}}`,
		p.name(pod), p.namespace(pod), pod, app, node, node>>8, node&255, address, address, pod)
}

// appendNamespace appends a namespace's metadata: clients ask for nothing else.
func (p podSet) appendNamespace(dst []byte, n int) []byte {
	return fmt.Appendf(dst, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,`+
		`"uid":"00000000-0000-4000-9000-%012x","resourceVersion":"1","creationTimestamp":"2025-01-01T00:00:00Z"}}`,
		podNamespace(n), n)
}
