// Package cluster is the cluster view: which sender has which address, which pods and other objects
// exist, which limits the LimitRanges of a namespace set and which metrics its
// HorizontalPodAutoscalers name. It watches the API server and answers from memory. Only adapter,
// its packages and cmd import k8s.io.
//
// The view serves identity (Sender, PodNamed, PodWithUID, PodWithContainer, Object, Canonical),
// limit (Limits, NamedByAutoscaler, Event), workload (Workload, Owner), reading (PodOwners, ReadyPods)
// and the metrics APIs (Alive, SelectObjects, FindResource). None of these methods waits for the
// network: an unknown object is answered as unknown, and a goroutine of the view asks for it.
//
// The package decides nothing about a sample. It writes four things to the cluster: Events
// (events.go), the Lease of the replica that writes common Events (lease.go), the statuses of Sluice's
// custom objects (customstatus.go), and the first replica of a target at zero (firstreplica.go).
//
// # Outages
//
// The last known state stays in use while a watch is broken, a list is read again or the API server
// is unavailable. Synced reports true once everything was read for the first time, and stays true;
// its text names the resources without an answer, and since when. A health probe asks the API
// server every second whether it is ready, because a watch does not notice that the server is
// frozen. When the server recovers, the probe ends all backoffs.
//
// # Reflectors with their own stores
//
// An informer of client-go keeps whole objects in its store, and addresses, UIDs and containers
// would need an index beside it. A Reflector takes any store. So each kind of object has a store
// here that keeps only the fields needed, and sees a repeated list as such (Replace), where
// deletions in between show. A pod takes less than 1.2 KiB in all indexes. Objects are converted
// one by one from a stream, or page by page (listpages.go).
//
// # Files
//
// view.go starts everything. A reflectorStore (resourcewatch.go) fills an index: pods.go,
// objects.go, limitranges.go, autoscalers.go, replicasets.go, endpointslices.go, customobjects.go.
// objectroom.go and labelroom.go bound what one namespace's objects take, autoscalerroom.go and customroom.go
// say how much that is.
// addresses.go maps addresses to senders; lookup.go, workloads.go and podowners.go answer
// the queries; view.go reports changes; outage.go and resourcewatch.go deal with an API
// server that does not answer.
package cluster
