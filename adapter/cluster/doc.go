// Package cluster is the view of the cluster: who has which address, which pods and other objects there are, what the
// LimitRanges of a namespace allow and which metrics its HorizontalPodAutoscalers ask for. It watches the API server
// and answers from memory; besides its parent and cmd it is the only importer of k8s.io.
//
// Before it comes the API server. After it come who asks whose a sample is (Sender, PodNamed, PodWithUID,
// PodWithContainer, Object, Canonical), how many series there may be (Limits, Asked, Event), and what may be answered
// (Alive, Matching, Find). None of these waits for the network, ever: what is not known yet is answered as such, and
// asked for by a goroutine of the view.
//
// It never decides anything about a sample, and changes nothing in the cluster but Events.
//
// # What is known stays
//
// A watch that breaks, a list that is read anew, an API server that is away: what was known is answered until better
// is known. Synced says once everything was read for the first time, and keeps saying so; its text tells which
// resource is without an answer, and since when. Once a second the API server is asked whether it is ready: a watch alone
// does not notice that it is frozen, and when it is back nobody waits any longer.
//
// # Why reflectors with stores of their own
//
// An informer of client-go keeps whole objects in its own store, and a second index would be needed beside it for
// addresses, UIDs and containers. A Reflector takes any store, so here each kind of object has one that keeps only what
// is asked for, and is told of a list read anew as such (Replace), in which what vanished meanwhile is noticed. A pod
// takes less than 1.2 KiB in all indexes together.
package cluster
