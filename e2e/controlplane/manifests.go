package controlplane

import (
	"fmt"
	"strings"
)

// ServiceAccount is the manifest of a service account.
func ServiceAccount(name string) string {
	return "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: " + name + "}\n"
}

// APIService is the manifest of a registration, such as "v1beta1.metrics.k8s.io", that leads to a port of a Service.
func APIService(name, namespace, service, port string) string {
	version, group, _ := strings.Cut(name, ".")
	return fmt.Sprintf(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %s}
spec:
  group: %s
  version: %s
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: %s, name: %s, port: %s}
`, name, group, version, namespace, service, port)
}

// Role is the manifest of a Role that allows what its rules say, and of a RoleBinding that gives it to a subject.
func Role(name, subject string, rules ...string) string {
	return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %s}
rules: [%s]
---`, name, strings.Join(rules, ", ")) + binding("RoleBinding", name, "Role", name, subject)
}

// RoleBinding is the manifest of a binding that gives a ClusterRole to a subject in one namespace.
func RoleBinding(name, role, subject string) string {
	return binding("RoleBinding", name, "ClusterRole", role, subject)
}

// ClusterRoleBinding is RoleBinding for all namespaces.
func ClusterRoleBinding(name, role, subject string) string {
	return binding("ClusterRoleBinding", name, "ClusterRole", role, subject)
}

func binding(kind, name, roleKind, role, subject string) string {
	return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: %s
metadata: {name: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}
subjects: [%s]
`, kind, name, roleKind, role, subject)
}

// User is a subject of a binding.
func User(name string) string {
	return "{apiGroup: rbac.authorization.k8s.io, kind: User, name: " + name + "}"
}

// Group is a subject of a binding.
func Group(name string) string {
	return "{apiGroup: rbac.authorization.k8s.io, kind: Group, name: " + name + "}"
}

// Account is a subject of a binding: a service account.
func Account(namespace, name string) string {
	return "{kind: ServiceAccount, namespace: " + namespace + ", name: " + name + "}"
}
