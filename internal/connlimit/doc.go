// Package connlimit limits the connections, and the requests in flight, that one peer address may
// hold.
//
// A Limiter limits the open connections of a listener, in all and per address. At a limit, a new
// connection takes the slot of one that is not in use, of the address that has most of those: the
// oldest that has proven nothing, or else the one that has been idle longest. Of connections in use,
// an address keeps its share. A client that opens many connections therefore loses its own and cannot
// lock others out (docs/adr/0080). The Limiter counts and logs what it closes. Slots limits anything
// else that is held for a while, such as requests in flight. Pages gives places to long answers, and ends those that nobody reads for others that wait.
//
// Every listener but the datagram sockets and the replicas' port, which the NATS library opens, uses
// it: operations, console, adapter, keda and agents through a Listener; receiver and receiver/push, which
// accept connections in their own way, through a Limiter.
package connlimit
