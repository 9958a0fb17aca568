package client

import (
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/builtin"
	"github.com/sluice-metrics/sluice/internal/suggest"
)

// shortNames are kubectl's short names of the resources that metrics usually describe.
var shortNames = map[string]string{
	"cj": "cronjobs.batch", "cm": "configmaps", "deploy": "deployments.apps", "ds": "daemonsets.apps",
	"hpa": "horizontalpodautoscalers.autoscaling", "ing": "ingresses.networking.k8s.io", "job": "jobs.batch",
	"no": "nodes", "ns": "namespaces", "po": "pods", "pv": "persistentvolumes",
	"pvc": "persistentvolumeclaims", "rs": "replicasets.apps", "sa": "serviceaccounts",
	"sc": "storageclasses.storage.k8s.io", "sts": "statefulsets.apps", "svc": "services",
}

// kind is a resource as a user names it.
type kind struct {
	resource   string // its short name replaced
	namespaced bool   // true also where known is false
	known      bool   // built into Kubernetes; others only the server knows
	canonical  string // plural[.group]; empty where known is false
}

// kindOf replaces a short name, and looks the resource up among those built into Kubernetes.
func kindOf(resource string) kind {
	if long, ok := shortNames[resource]; ok {
		resource = long
	}
	canonical, namespaced, err := builtin.New().Canonical(resource)
	if err != nil {
		return kind{resource: resource, namespaced: true}
	}
	return kind{resource, namespaced, true, canonical}
}

// splitObject takes "<resource>/<name>" apart. Its error continues the name of the argument, lists
// other valid values, as in " or external", and suggests the nearest resource.
func splitObject(object, others string) (resource, name string, err error) {
	resource, name, ok := strings.Cut(object, "/")
	if ok && resource != "" && name != "" {
		return resource, name, nil
	}
	if k := kindOf(resource); k.known && name == "" {
		return "", "", fmt.Errorf("is %q; must be <resource>/<name>, as in %s/web%s", object, k.canonical, others)
	}
	return "", "", fmt.Errorf("is %q; must be <resource>/<name>%s%s", object, others, suggestKind(resource))
}

// suggestKind continues the error of a resource that is not built into Kubernetes with the nearest
// one.
func suggestKind(resource string) string {
	if kindOf(resource).known {
		return ""
	}
	byName, names := map[string]string{}, []string{"external"}
	for _, canonical := range shortNames {
		plural, _, _ := strings.Cut(canonical, ".")
		byName[plural] = canonical
		names = append(names, plural)
	}
	resource, _, _ = strings.Cut(resource, ".")
	best := suggest.Nearest(resource, names)
	if canonical, ok := byName[best]; ok {
		best = canonical
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
