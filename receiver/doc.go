// Package receiver serves the StatsD sockets.
//
// Before it stand the clients; after it, behind the Applier that it declares, the table. The
// goroutine that reads a datagram parses and applies it: no channel and no queue stands between
// socket and table. Where senders are looked up, each sample carries its sender (SenderResolver). A
// sample whose sender is unknown is pending (receiver/pending); any other sample is applied at
// once.
//
// Stopping follows the data. The sockets stop receiving, the usual code reads the data that has
// arrived, and then everything is closed.
//
// The grammar lives in receiver/statsd, HTTP in receiver/push. The package never decides which
// object a sample describes.
package receiver
