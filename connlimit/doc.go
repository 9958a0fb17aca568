// Package connlimit bounds how many connections a listener keeps open, in all and from one address. When the
// bound is reached, the connection that has been idle longest yields its place to the new one. A client that opens
// many connections therefore loses its own, and keeps nobody out.
//
// A listener calls it after it accepted a connection and before it serves it. It closes nothing and logs nothing:
// its caller does.
package connlimit
