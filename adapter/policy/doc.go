// Package policy decides who may read which external metric: the rules of ExternalMetricPolicy and
// ClusterExternalMetricPolicy objects, as the design of the external metrics API describes them. It
// follows the watch of those objects (adapter/cluster) and precedes every reader of external
// metrics: the metrics API, GET /v1, KEDA, the export, the console and discovery ask the same Set.
//
// It never reads a value, and never widens what RBAC allows.
package policy
