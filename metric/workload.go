package metric

// Workload is the controller of a pod: a StatefulSet, a DaemonSet, a Job; for a pod of a Deployment the Deployment, not
// its ReplicaSet.
type Workload struct{ Kind, Name, UID string }
