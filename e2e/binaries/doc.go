// Package binaries builds etcd, kube-apiserver, kube-controller-manager and kubectl from the Go
// module proxy and caches them outside the checkout, so only the first run of the end-to-end tests
// builds them.
//
// Few tests need KEDA's operator and adapter, which take almost as long: they are built only if
// asked for (BuildKEDA), and tests use them if they are there (CachedKEDA).
//
// The modules beside this package, etcd, kubernetes and kedacore, name the binaries and pin every
// version; the environment variable KUBERNETES chooses the module of another version of Kubernetes. The
// package downloads no binary and uses none that is installed: results would depend on the machine.
package binaries
