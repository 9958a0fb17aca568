// Package adapter serves the Kubernetes metrics APIs from the table: custom.metrics.k8s.io (v1beta1
// and v1beta2) and external.metrics.k8s.io (v1beta1), over TLS, in JSON and protobuf. Its clients
// are the Horizontal Pod Autoscaler, KEDA and kubectl. It is built on
// sigs.k8s.io/custom-metrics-apiserver and k8s.io/apiserver; only adapter, its packages and cmd
// import k8s.io.
//
// A Source answers the queries. In a cluster, a Cluster knows the objects. The package never
// computes or caches a value, never writes, and never asks the API server about an object.
// Standalone there is no cluster: anyone may read, resources are Kubernetes' built-in ones, and
// objects cannot be selected by labels. kubectl insists on a credential then; any token will do.
//
// # Files
//
// server.go starts and stops the server that apiserver.go builds, on the port of httpserver.go. middleware.go chains the HTTP
// handlers: ready.go rejects early ones, answerqueue.go limits requests and queues large
// answers; usageroom.go counts those about usage as such. access.go and frontproxy.go authenticate and authorize clients; pushaccounts.go does so
// for HTTP pushes; reviewpace.go limits their questions to the API server. custom.go and external.go
// answer queries: requestpath.go and selector.go parse them, discovery.go and resources.go find the
// objects, status.go makes the errors, and package valuelist the answers. apiserver.go and
// discovery.go register the API groups.
//
// # In a cluster
//
// Only live objects are answered, and only those that the labelSelector matches. A request for a
// single object by name ignores the labelSelector. A labelSelector for a kind that is not watched
// is status 400.
//
// The Source adds the zeros of pods that never counted (docs/adr/0040), and answers for workloads
// and Services by their pods (docs/adr/0060): package reading.
//
// The cluster's API server authenticates and authorizes clients: tokens with TokenReview, rights
// with SubjectAccessReview. Its front proxy is identified by a client certificate of the authority
// in ConfigMap kube-system/extension-apiserver-authentication, and trusted to name the user.
// Decisions are cached for 10 s. This requires ClusterRole system:auth-delegator, and Role
// extension-apiserver-authentication-reader in kube-system. /livez, /readyz and /healthz need no
// right.
//
// Rights are per metric, in the requested spelling: stat and window, "\|" for "/", and other names
// of a resource make other rights.
//
//	path                                            verb  resource                  in RBAC
//	namespaces/shop/pods/*/http_requests            get   pods/http_requests        in shop, no resourceNames
//	namespaces/shop/pods/web-1/http_requests:10s    get   pods/http_requests:10s    in shop, resourceNames web-1 or none
//	nodes/node-a/temperature                        get   nodes/temperature         in a ClusterRole
//	namespaces/shop/metrics/queue_length            get   metrics                   in shop, resourceNames queue_length
//	namespaces/shop/orders (external)               list  orders                    in shop
//
// Until Sluice knows everything that an answer needs, queries are status 503 with Retry-After and
// /readyz fails; discovery answers. During Config.ShutdownDelay /readyz fails, and queries are
// still answered.
//
// # Values
//
// A value is a resource.Quantity: integers exactly, fractions rounded to the nearest nano if the
// number of nanos fits int64, else to the nearest micro, else to the nearest milli. The autoscaler
// reads MilliValue and adds up the items that it counts, both without a check for overflow. So an
// answer is status 422 (reason Invalid) if a value's milli value exceeds int64, or the sum of all
// positive or of all negative ones does. No value ever wraps around. NaN and infinities are never
// served. An object with such a value is left out; an external answer with one is not found as a
// whole, because nothing would make up for the missing item.
//
// # Selectors
//
// metricLabelSelector (custom) and labelSelector (external) select label sets. Keys and values that
// selector syntax cannot express are matched in sanitized form: each byte other than a letter,
// digit, "-", "_" or "." becomes "_", leading bytes that are neither letter nor digit are dropped,
// the rest is cut at 63 bytes, and trailing bytes that are neither letter nor digit are dropped. So
// "path=api" selects path=/api, and a legal value is its own sanitized form. The operators > and <
// compare the original value. A malformed selector is status 400.
//
// # Errors
//
// A missing metric is status 404 with a message that says why. An unavailable window or stat, a
// malformed selector or a wrong scope is 400, an overflow 422, too many requests 429 with
// Retry-After, and an early request 503. A metric of another provider that fails is 502 or 503, with the provider's name
// (package route). No answer is a redirect. A client's error, such as an
// invalid token, is not logged as an error.
package adapter
