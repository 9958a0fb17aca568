// Package connlimit limits the connections, and the requests in flight, that one peer address may
// hold.
//
// A Limiter limits the open connections of a listener, in all and per address. At a limit it closes
// the connection that has been idle longest in favour of the new one, or rejects the new one. A
// client that opens many connections therefore loses its own and cannot lock others out. Slots
// limits anything else that is held for a while, such as requests in flight.
//
// Every listener but the datagram sockets uses it: operations, adapter and keda through a Listener;
// receiver and receiver/push, which accept connections in their own way, through a Limiter. It
// never logs.
package connlimit
