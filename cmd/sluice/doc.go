// Command sluice is the whole product in one binary: serve runs it, push and get are its clients, for
// people and scripts.
//
// This package is where the stages meet: it composes their configurations (settings.go), joins them into
// the data path (wire.go, which draws it) and stops them in the order of the data. It decides nothing
// about a sample itself. Only main leaves the process.
package main
