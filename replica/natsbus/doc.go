// Package natsbus carries the messages of replicas over NATS, at most once.
//
// By default each replica embeds a NATS server that no client can reach. The servers form a full
// mesh of routes with mutual TLS. With Config.URL, the replica is a client of the user's own NATS.
// Package replica gives the messages their meaning and repairs what is lost.
//
// It knows no message, keeps none on disk, and never makes a publisher wait.
package natsbus
