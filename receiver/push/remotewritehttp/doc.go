// Package remotewritehttp serves Prometheus remote write, 1.0 and 2.0. Package remotewrite reads
// the messages.
package remotewritehttp
