// Package ledger accounts for every sample: each received sample is applied, rejected or pending,
// exactly once.
//
// Receivers write one Account per goroutine; Ledger sums the accounts into metrics.
//
// It never decides about a sample.
package ledger
