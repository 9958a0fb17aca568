// Package pending holds samples until their sender is known: a pod's address reaches the API server
// some seconds after the pod's first datagrams.
//
// The receivers call Hold for a sample that the table answered with metric.Pending. Run applies or
// rejects pending samples, each through the sample's own ledger.Account.
//
// It never decides who a sender is, and never keeps a sample longer than Config.MaxBlindAge.
package pending
