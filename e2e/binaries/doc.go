// Package binaries builds etcd, kube-apiserver, kube-controller-manager and kubectl from the Go module proxy and
// keeps them outside the checkout, so that only the first run of the end-to-end tests pays for it.
//
// The modules beside this one, etcd and kubernetes, say what is built and pin every version. It never downloads
// a binary and never uses one that is installed on the machine: the tests would then speak of that one.
package binaries
