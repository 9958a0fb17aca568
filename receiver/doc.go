// Package receiver owns the sockets that StatsD comes in by, and the ledger in which every receiver
// accounts for what it got.
//
// Before it stand the clients; after it, behind the Applier that it declares, the table. The goroutine
// that reads a datagram parses and applies it: no channel and no queue stands between socket and table.
// Every sample names who sent it (Origin), where somebody asks. What cannot be decided yet, for the cluster has
// not told whose an address is, is held and tried again (Pending): the one thing that is not applied at once.
// Stopping follows the data: the sockets' entrances are shut, what had already arrived is read by the code
// that always reads, then everything is closed.
//
// The grammar lives in receiver/statsd, HTTP in receiver/push. It never decides what a sample is about.
package receiver
