// Package adapter is the Kubernetes face: it serves what the table holds as custom.metrics.k8s.io (v1beta1 and
// v1beta2) and external.metrics.k8s.io (v1beta1), over TLS, in JSON and protobuf, the way the Horizontal Pod
// Autoscaler, KEDA and kubectl read it. It stands on sigs.k8s.io/custom-metrics-apiserver and k8s.io/apiserver;
// besides its cluster and cmd it is the only importer of k8s.io.
//
// Before it come a Source, which answers queries, and in a cluster a Cluster, which knows its objects; after it come
// the readers. It never computes a value, never caches one, never writes and never asks the API server about an
// object. Standalone there is no cluster: everybody may read, resource names are those built into Kubernetes, and
// objects cannot be picked by their own labels. kubectl insists on some credential: any token will do.
//
// # In a cluster
//
// Each query for objects takes only those that live, and those alone whose own labels the labelSelector matches. Of one
// object asked for by its name the labels play no part. Kinds whose labels are not watched are status 400.
//
// A ready pod without a series reads rate, count and unique 0, once another pod of its workload has pushed the counter or
// set (docs/adr/0040): the pod that pushed may be the one that the autoscaler removes.
//
// The cluster's API server decides who may read: a token is shown to it (TokenReview), its front proxy is told by a client
// certificate of the authority that ConfigMap kube-system/extension-apiserver-authentication names and believed
// about who is asking, and what they may is asked with a SubjectAccessReview. Its word is kept for 10 s, yes and no
// alike. It needs ClusterRole system:auth-delegator, and Role extension-apiserver-authentication-reader in kube-system.
// /livez, /readyz and /healthz answer everybody.
//
// Rights are given per metric, in the spelling asked for: stat and window, "\|" for "/", and a resource's other names
// are names of their own.
//
//	path                                            verb  resource                  in RBAC
//	namespaces/shop/pods/*/http_requests            get   pods/http_requests        in shop, no resourceNames
//	namespaces/shop/pods/web-1/http_requests:10s    get   pods/http_requests:10s    in shop, resourceNames web-1 or none
//	nodes/node-a/temperature                        get   nodes/temperature         in a ClusterRole
//	namespaces/shop/metrics/queue_length            get   metrics                   in shop, resourceNames queue_length
//	namespaces/shop/orders (external)               list  orders                    in shop
//
// Until everything is known that an answer needs, queries are status 503 with Retry-After, and /readyz says no;
// discovery answers. While stopping, for Config.ShutdownDelay, it is the other way round: /readyz says no, and queries are
// still answered.
//
// # Values
//
// A value travels as resource.Quantity: integers exactly, fractions rounded to the nearest nano where the
// number of nanos fits int64, else to the nearest micro, else to the nearest milli. The autoscaler reads MilliValue and adds up whichever
// of the items it counts, both without a check for overflow. So an answer in which a value's milli value, or
// the sum of all positive or of all negative ones, leaves int64 is refused with status 422 (reason Invalid),
// and no value ever wraps around. NaN and infinities are never served: an object whose value is one is absent,
// and an external answer that holds one is not found as a whole, for nobody makes up for a missing item there.
//
// # Selectors
//
// metricLabelSelector (custom) and labelSelector (external) pick label sets. What selector syntax cannot say,
// in a key or a value, is matched by its sanitized form: each byte other than a letter, digit, "-", "_" or "."
// becomes "_", leading bytes that are neither letter nor digit are dropped, the rest is cut at 63 bytes, and
// trailing bytes that are neither letter nor digit are dropped. So path=/api is asked for as "path=api", and a
// legal value is its own sanitized form. The operators > and < compare the value as it is. A malformed selector
// is status 400.
//
// # Errors
//
// What is not there is status 404 with a message that says why; a window that is not kept, a stat that the kind
// does not have, a malformed selector or a wrong scope is 400; what cannot be held is 422; beyond the bound of
// requests in flight it is 429 with Retry-After, and before everything is known 503. Nothing is ever answered with a redirect. A client's fault is
// told to the client, and is not an error in the log: a token that is none, too.
package adapter
