// Package server runs the sluice binary for the end-to-end tests and reads its metrics API and its
// own metrics over the wire. It shares no code with the binary.
package server
