// Package identity finds the object that a sample describes, and decides whether its sender may
// describe it.
//
// The table asks it once for every line that is new for a sender: the parser comes before it, the
// table after it. Four rules choose the object, in this order. Only the labels of the rule that
// decided leave the label set:
//
//  1. an explicit claim: the path of the request (Sample.Object), or the label sluice_object;
//  2. a claim of a pod, in the vocabularies that clients and agents send: pod and namespace,
//     OpenTelemetry's k8s.pod.name and k8s.namespace.name, Datadog's pod_name and kube_namespace,
//     its dd.internal.entity_id, and the "c:" and "e:" fields of DogStatsD;
//  3. the sender, if it is a pod, unless the pod or the listener says otherwise;
//  4. else the sample is external, in the sender's namespace.
//
// Trust decides whether the sender may describe that object (permission.go). A sample is pending,
// never guessed, while the cluster view does not know its sender or the claimed pod yet.
//
// An address becomes a sender in three steps: receiver.SenderResolver takes it from the socket,
// adapter/cluster's addresses.go looks up the pod, and sender.go adds the rights that the
// configuration gives.
//
// Standalone every claim is accepted. No address belongs to a pod then, so a sample without a claim
// is external. The package keeps no state and does no I/O.
package identity
