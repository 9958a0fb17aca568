// Package identity answers which object a sample describes, and whether who sent it may say so.
//
// The table asks it once for every line that it never saw before of that sender; before it stands the grammar that
// took the line apart, after it the table that files the series. Claims choose the object, in this order, and only the
// labels of the rule that decided leave the label set:
//
//  1. an explicit claim: the way the sample came (Sample.About), or the label sluice_object;
//  2. a pod's claim, in the vocabularies that clients and agents already send: pod and namespace, OpenTelemetry's
//     k8s.pod.name and k8s.namespace.name, Datadog's pod_name and kube_namespace, its dd.internal.entity_id,
//     and the "c:" and "e:" fields of DogStatsD;
//  3. the sender, if it is a pod, unless the pod or the listener says that it speaks of something else;
//  4. else the sample is external, in the sender's namespace.
//
// Trust decides whether they may. What cannot be decided yet, because the cluster has not told yet whose an address is
// or who a claimed pod is, is pending: never guessed.
//
// Without a cluster claims are believed as they stand; nobody can say which pod an address belongs to, so a sample
// without a claim is external. The package keeps no state and does no I/O.
package identity
