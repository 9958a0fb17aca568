package metric

// Object is the Kubernetes object that a series describes.
type Object struct {
	// Resource is the canonical group-resource: "pods", "ingresses.networking.k8s.io",
	// "namespaces". Empty: the series is external and describes no object.
	Resource string
	// Namespace is empty for cluster-scoped objects and for cluster-wide externals. A Namespace
	// object is cluster-scoped: Resource "namespaces", Name the namespace.
	Namespace string
	// Name is empty for externals.
	Name string
	// UID distinguishes a pod from a later pod of the same name; empty without a cluster.
	UID string
}

// External reports whether the series describes no object.
func (o Object) External() bool { return o.Resource == "" }

// String prints the object for people: "pods/web-1 in shop", "nodes/a", "external in shop".
func (o Object) String() string {
	s := "external"
	if !o.External() {
		s = o.Resource + "/" + o.Name
	}
	if o.Namespace != "" {
		s += " in " + o.Namespace
	}
	return s
}

// Workload is the controller of a pod: a StatefulSet, DaemonSet or Job. For a pod of a Deployment
// it is the Deployment, not the ReplicaSet.
type Workload struct {
	Kind, Name, UID string
	// Group is the API group of the kind; empty if it is not known.
	Group string
}
