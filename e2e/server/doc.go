// Package server runs the real sluice binary for the end-to-end tests and asks it over the wire what it
// holds: its metrics API and its own metrics. It shares no code with what it tests.
package server
