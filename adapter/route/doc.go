// Package route asks other providers of external.metrics.k8s.io, such as KEDA's adapter, for the metrics that are
// theirs. A cluster has one server for the API group; Sluice is it, and forwards what a file of providers names.
//
// The adapter comes before it: the caller is authorized and policies have allowed the metric when Provider.Ask is
// called. Sluice then asks with its own service account, so the other provider trusts the cluster's certificates as
// before and needs no flag. Names route as they were written: "datadogmetric@shop:orders" is no expression.
//
// A provider may be away, slow or hostile. Its requests are bounded in number, time and bytes, its certificate is
// verified, no redirect is followed, and every failure is a Status that names it. Sluice's own metrics need none of
// this. Requests go one hop: a Sluice that is asked by another one forwards nothing.
//
// The package never decides who may read, keeps no value, and reads no table.
package route
