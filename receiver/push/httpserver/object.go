package httpserver

import (
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// Check checks the names against the rules of Kubernetes. With all, the path may name all objects
// at once.
func (p *Path) Check(all bool) *Fault {
	if p.Namespace != "" {
		if f := CheckNamespace(p.Namespace); f != nil {
			return f
		}
	}
	if p.Name == metric.AllObjects && p.Resource != "" {
		if all {
			return nil
		}
		return BadName(`"*" stands for all objects when reading and deleting; a push names one`)
	}
	if p.Resource == "namespaces" {
		return CheckNamespace(p.Name)
	}
	if p.Resource != "" {
		return checkObjectName(p.Name)
	}
	return nil
}

// CheckNamespace checks that a namespace is an RFC 1123 label.
func CheckNamespace(ns string) *Fault {
	ok := len(ns) > 0 && len(ns) <= 63 && ns[0] != '-' && ns[len(ns)-1] != '-'
	for i := 0; ok && i < len(ns); i++ {
		c := ns[i]
		ok = c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z'
	}
	if !ok {
		return BadName("%q is not a namespace; must be 1 to 63 of a-z, 0-9 and -, with no - at either end", ns)
	}
	return nil
}

// checkObjectName checks that a name is a path segment (apimachinery's IsValidPathSegmentName) of
// at most 253 bytes.
func checkObjectName(name string) *Fault {
	ok := name != "" && len(name) <= 253 && name != "." && name != ".." && !strings.ContainsAny(name, "/%")
	for i := 0; ok && i < len(name); i++ {
		ok = name[i] >= ' ' && name[i] < 0x7f
	}
	if !ok {
		return BadName(`%q is not an object's name; must have 1 to 253 printable ASCII bytes without "/" and "%%", and is not "." or ".."`, name)
	}
	return nil
}

// target returns the object that a path or a line names.
func (s *Server) target(namespace, resource, name string) (metric.Object, *Fault) {
	if resource == "" {
		return metric.Object{Namespace: namespace}, nil
	}
	canonical, namespaced, err := s.resources.Canonical(resource)
	if err != nil {
		return metric.Object{}, unknownResource(err)
	}
	switch {
	case namespaced && namespace == "":
		return metric.Object{}, wrongScope("%s are in namespaces: say /v1/namespaces/{namespace}/%s/%s/{metric}, or \"namespace\" in a line", canonical, resource, name)
	case canonical == "namespaces" && namespace != "":
		return metric.Object{}, wrongScope("a namespace is in no namespace: say /v1/namespaces/%s/metrics/{metric}, or \"object\":\"namespaces/%s\" alone in a line", name, name)
	case !namespaced && namespace != "":
		return metric.Object{}, wrongScope("%s are in no namespace: say /v1/%s/%s/{metric}, or leave \"namespace\" out of a line", canonical, resource, name)
	}
	return metric.Object{Resource: canonical, Namespace: namespace, Name: name}, nil
}
