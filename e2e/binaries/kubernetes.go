package binaries

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

const (
	// kubernetesVariable is an environment variable with the version of Kubernetes to test with, such
	// as 1.36.3.
	kubernetesVariable = "KUBERNETES"
	defaultKubernetes  = "v1.37.1"
)

// kubernetesFolders are the modules of the versions that the tests may run with.
var kubernetesFolders = map[string]string{"v1.36.3": "kubernetes-1.36", defaultKubernetes: "kubernetes"}

// KubernetesVersion is the version that the binaries report: that of k8s.io/kubernetes in the go.mod of
// their module, which "go build" does not record. Clients reject a server without a version.
var KubernetesVersion = "v" + strings.TrimPrefix(cmp.Or(os.Getenv(kubernetesVariable), defaultKubernetes), "v")

// kubernetes is the module of a version.
func kubernetes(version string) (module, error) {
	folder, is := kubernetesFolders[version]
	if !is {
		return module{}, fmt.Errorf("%s is %s; must be one of %s", kubernetesVariable, version,
			strings.Join(slices.Sorted(maps.Keys(kubernetesFolders)), ", "))
	}
	const flag = " -X k8s.io/component-base/version."
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return module{folder: folder, about: "kube-apiserver, kube-controller-manager and kubectl", pattern: "tool",
		ldflags: "-s -w" + flag + "gitVersion=" + version + flag + "gitMajor=" + parts[0] + flag + "gitMinor=" + parts[1]}, nil
}
