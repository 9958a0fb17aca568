// Package claim says which one of several replicas does something that only one may do, such as to scrape the
// pods of a node.
//
// Replicas tell each other their claims by documents (package replica), which joins this package in cmd/sluice.
// A claim has a number: one more than that of the claim it takes the place of. Of two the greater number counts,
// and the greater name of the holder if they are equal, so all replicas that have heard the same agree, whatever
// came first.
//
//   - C1 A claim stands while its holder lives, that is while the other replicas hear it, until it is released or another one
//     takes it, which the holder says too. One of a process that has ended stands no longer once the next process of
//     that name is heard.
//   - C2 Who takes a claim waits before it begins, so that the holder of before has heard of it and ended.
//
// It never asks another replica and never waits: where replicas do not hear each other, both may hold a claim.
// What they do twice then must be harmless.
package claim
