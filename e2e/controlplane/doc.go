// Package controlplane runs a real Kubernetes control plane on loopback for the end-to-end tests:
// etcd, kube-apiserver and kube-controller-manager, built by package binaries, and a Kubelet in
// place of the machines. It gives tests an administrator's tools: clients, kubectl, server-side
// apply, and credentials of users and service accounts.
//
// The API is real. There is no scheduler, no network and no container: the Kubelet reports a pod
// as running and gives it an address of 127.0.0.0/8; a test that sends from that address binds to
// it.
package controlplane
