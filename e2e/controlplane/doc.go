// Package controlplane runs a real Kubernetes control plane on loopback for the end-to-end tests: etcd,
// kube-apiserver and kube-controller-manager, as package binaries built them, with a Kubelet that stands in for
// the machines. It offers tests what a cluster's administrator has: clients, kubectl, server-side apply, and
// credentials of users and service accounts.
//
// Nothing of the API is imitated. What is not there: a scheduler, a network, containers. The Kubelet says that a
// pod runs and gives it an address of 127.0.0.0/8; who wants traffic from that address binds to it.
package controlplane
