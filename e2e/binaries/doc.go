// Package binaries builds etcd, kube-apiserver, kube-controller-manager and kubectl from the Go
// module proxy and caches them outside the checkout, so only the first run of the end-to-end tests
// builds them.
//
// The modules beside this package, etcd and kubernetes, name the binaries and pin every version.
// The package downloads no binary and uses none that is installed: results would depend on the
// machine.
package binaries
